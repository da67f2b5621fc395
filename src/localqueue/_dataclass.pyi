from dataclasses import KW_ONLY as KW_ONLY
from dataclasses import dataclass as dataclass
from dataclasses import field as field
from dataclasses import replace as replace

def field_names(kind: type) -> tuple[str, ...]: ...
