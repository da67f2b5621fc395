"""Schedules that are kept in the store: one message for each tick, however many processes run the scheduler."""

from localqueue.schedules.cron import CronSchedule
from localqueue.schedules.schedule import PeriodicSchedule, Schedule
from localqueue.schedules.scheduler import Scheduler
from localqueue.schedules.stored import ScheduleState

__all__ = ["CronSchedule", "PeriodicSchedule", "Schedule", "ScheduleState", "Scheduler"]
