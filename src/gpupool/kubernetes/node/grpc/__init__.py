"""What the kubelet and its plugins say to each other: messages and calls, made at run time from
tables.

No generated code and no compiler for it. Nothing here knows a pod's meaning or a card. Needs the
extra `kubernetes`.
"""
