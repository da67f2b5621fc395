\i 0002_functions.up.sql
