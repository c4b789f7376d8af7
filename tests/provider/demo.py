"""A small payment provider for demonstrations: what it does is chosen by `?plan=` in the target.

    ok        200 {"id": "pay_N", "status": "paid"}
    flaky     503, 503, then as ok
    lost      takes the money, then closes the connection without an answer
    slow      as ok, after 3 seconds
    invalid   422 with a JSON error
    limited   429 with Retry-After: 2 once, then as ok
    auth      401

State is per operation key. `GET /charges` lists what was really charged.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from steps import Request, Step, When, json_step


@dataclass
class Account:
    """What one operation key has seen."""

    requests: int = 0
    charges: list[str] = field(default_factory=list)


class Demo:
    """The demo's state, and the function that answers one request."""

    def __init__(self, honour_keys: bool = False) -> None:
        """With `honour_keys` a key is charged once, and a repeat gets the first payment again."""
        self._honour_keys = honour_keys
        self._lock = threading.Lock()
        self._accounts: dict[str, Account] = {}
        self._payments = 0

    def answer(self, request: Request) -> Step:
        """Picks the reply for a request and prints a line about it."""
        query = request.target.partition(b"?")[2].decode("latin-1")
        plan = parse_qs(query).get("plan", ["ok"])[0]
        with self._lock:
            if request.method == "GET" and request.path.endswith("/charges"):
                step, note = self._list(), "list"
            else:
                account = self._accounts.setdefault(request.key or "", Account())
                account.requests += 1
                step, note = self._plan(plan, account)
        key = request.key or "-"
        sys.stdout.write(f"{request.method} {request.path} key={key} plan={plan} -> {note}\n")
        sys.stdout.flush()
        return step

    def _list(self) -> Step:
        charges = {
            key: {"requests": account.requests, "count": len(account.charges),
                  "ids": account.charges}
            for key, account in sorted(self._accounts.items())
        }
        total = sum(len(account.charges) for account in self._accounts.values())
        return json_step(200, json.dumps({"total": total, "charges": charges}))

    def _plan(self, plan: str, account: Account) -> tuple[Step, str]:
        if plan == "flaky" and account.requests <= 2:
            return json_step(503, '{"error":"try later"}'), "503"
        if plan == "limited" and account.requests == 1:
            return json_step(429, '{"error":"slow down"}', [("Retry-After", "2")]), "429"
        if plan == "invalid":
            return json_step(422, '{"error":"amount","message":"must be positive"}'), "422"
        if plan == "auth":
            return json_step(401, '{"error":"credentials"}'), "401"
        payment = self._charge(account)
        if plan == "lost":
            return Step(cut_when=When.REQUEST), f"{payment} charged, no answer"
        delay = 3.0 if plan == "slow" else 0.0
        body = json.dumps({"id": payment, "status": "paid"})
        return json_step(200, body, delay=delay), f"200 {payment}"

    def _charge(self, account: Account) -> str:
        if self._honour_keys and account.charges:
            return account.charges[0]
        self._payments += 1
        payment = f"pay_{self._payments}"
        account.charges.append(payment)
        return payment
