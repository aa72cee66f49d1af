"""All boards, in the order of Grafana's list."""

from __future__ import annotations

from boards.capacity import CAPACITY
from boards.cards import CARDS
from boards.money import MONEY
from boards.queue import QUEUE
from boards.services import SERVICES
from boards.tenants import TENANTS

BOARDS = (CAPACITY, TENANTS, QUEUE, CARDS, SERVICES, MONEY)
