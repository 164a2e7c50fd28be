"""One node's view of its neighbours, and the decision that one of them is dead. Pure: times go in.

A node is dead if all of this holds:

* It sent heartbeats and its kernel answered TCP before; since then, for ``silent_s``, neither.
* More than half of its watchers, and at least two, say so; none of them has a sign of life.
* They hear this node and are heard by it: who hears nobody is cut off itself.
* No other node fell silent at the same time: that is an incident of the network.

All times are of one monotonic clock. A round that comes late counts as this node's own stall, and every
silence starts again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.policy.node_death.heartbeat import (
    ALIVE,
    LOST,
    SETTLED,
    UNKNOWN,
    Death,
    Heartbeat,
    Round,
)
from holdfast.policy.node_death.neighbour import NEVER, Neighbour
from holdfast.policy.node_death.ring import EXCHANGE, WATCHED, neighbours, ring
from holdfast.vocabulary import SlurmName

INTERVAL_S = 0.4
"""Between two heartbeats."""
HURRY_S = 0.125
"""The same while a neighbour is silent: its watchers then agree as soon as the time is over."""
_SUSPECT_S = 2 * INTERVAL_S
_STALL_S = 1.0
"""A round that comes later than this after the last one: this node itself did not run."""
_FRESH_S = 2.5 * INTERVAL_S
_ECHO_TICKS = 24
_SELDOM_S = 10.0
"""Between two connects to a node without any sign of life; else there is one each interval."""
_AGENT_GONE_S = 10.0
"""Without heartbeats while the kernel answers: only the agent is gone, and it has to be heard again."""
_GIVE_UP_S = 30.0
"""A silence without a decision is left to Slurm's own time-out."""
_TURN_S = 1.0
"""Each further watcher waits so much longer, so that normally one of them writes."""
_ABSENT_S = 60.0
"""A node that was not heard for so long counts neither as a watcher nor as one that fell silent."""
_LEAST_WATCHERS = 2


class Watch:
    """``me``: this node. ``run``: random for each start. ``silent_s``: as in the configuration."""

    def __init__(self, me: SlurmName, run: str, silent_s: float) -> None:
        self._me, self._run, self._silent_s = me, run, silent_s
        self._order: tuple[SlurmName, ...] = ()
        self._watched: tuple[SlurmName, ...] = ()
        self._near: dict[SlurmName, Neighbour] = {}
        self._tick = 0
        self._last = NEVER
        self._since = NEVER
        self._reported_dead = self._strangers = False
        self._returned: list[SlurmName] = []
        self._held = ""

    def know(self, names: Iterable[SlurmName]) -> tuple[SlurmName, ...]:
        """Take the names of all nodes; returns the neighbours."""
        self._order = ring([*names, self._me])
        self._watched = neighbours(self._order, self._me, WATCHED)
        near = neighbours(self._order, self._me, EXCHANGE)
        self._near = {name: self._near.get(name, Neighbour()) for name in near}
        return near

    def hear(self, beat: Heartbeat, now: float) -> None:
        """An authentic heartbeat. One that may be a copy of an old one shows no life."""
        near = self._near.get(beat.sender)
        if beat.to != self._me or near is None:
            self._strangers = self._strangers or beat.to == self._me
            return
        # The highest number comes back in the next heartbeat: it proves that this node hears that
        # one.
        if beat.run != near.echo[0] or beat.tick > near.echo[1]:
            near.echo = (beat.run, beat.tick)
        hears = beat.echo_run == self._run and self._tick - beat.echo_tick <= _ECHO_TICKS
        # Anyone on the network may send an authentic heartbeat again. One of another run counts
        # only if it answers a recent one of this node.
        if not (beat.tick > near.tick if beat.run == near.run else hears):
            return
        near.run, near.tick, near.beat_at, near.views = beat.run, beat.tick, now, beat.views
        near.beats, near.asked = near.beats + 1, False
        if near.settled and near.beats > 1:
            near.settled = False
            self._returned.append(beat.sender)
        if hears:
            near.hears_at = now
        self._reported_dead = self._reported_dead or beat.views.get(self._me) == SETTLED

    def answered(self, name: SlurmName, now: float) -> None:
        """The node's kernel answered a connect: it accepted or refused it."""
        if name in self._near:
            self._near[name].answered_at = now

    def cannot_look(self, name: SlurmName) -> None:
        """This node could not even try to connect."""
        if name in self._near:
            self._near[name].blind = True

    def is_dead(self, name: SlurmName, now: float) -> bool:
        """Whether a ``Death`` of an earlier round still holds: since then no sign of life, nobody else settled
        it, and no other node fell silent."""
        near = self._near.get(name)
        return near is not None and near.asked and self._view(near, now) >= self._silent_s

    def settle(self, name: SlurmName, *, done: bool, retry: bool = False) -> None:
        """The end of what a ``Death`` led to. ``done``: Slurm was informed, or would have been; ``retry``:
        it did not answer."""
        near = self._near.get(name)
        if near is None:
            return
        near.asked = False
        if not retry:
            near.settled = done
            near.forget()

    def round(self, now: float) -> Round:
        """One interval: what to send and to try, and who is dead."""
        # A process that was stopped would otherwise find that everybody has been silent.
        late = not 0 <= now - self._last <= _STALL_S
        self._last, self._tick = now, self._tick + 1
        if late:
            self._since = now
        for name in self._watched:
            self._age(name, now)
        views = {name: self._view(self._near[name], now) for name in self._watched}
        dead, notes = self._decide(views, now)
        connect = self._to_connect(now)
        for near in self._near.values():
            near.blind = False
        result = Round(
            beats=tuple(self._beat(to, near, views) for to, near in self._near.items()),
            connect=connect,
            connect_slurmd=tuple(
                name for name in connect if self._is_silent(self._near[name], now)
            ),
            dead=dead,
            notes=notes,
            hurry=any(self._is_silent(self._near[name], now) for name in self._watched),
            reported_dead=self._reported_dead,
            strangers=self._strangers,
            returned=tuple(self._returned),
        )
        self._reported_dead, self._strangers, self._returned = False, False, []
        return result

    # --- one neighbour -------------------------------------------------------------------------

    def _age(self, name: SlurmName, now: float) -> None:
        near = self._near[name]
        if self._settled_elsewhere(name, now):
            near.settled = True
            near.forget()
        if not near.known:
            return
        unheard_s = now - max(near.beat_at, self._since)
        lives = now - near.answered_at <= _SUSPECT_S + INTERVAL_S
        if unheard_s > (_AGENT_GONE_S if lives else _GIVE_UP_S):
            near.forget()

    def _settled_elsewhere(self, name: SlurmName, now: float) -> bool:
        """Another watcher has settled it, and it has not been heard since."""
        if now - self._near[name].beat_at < _SUSPECT_S:
            return False
        return any(near.views.get(name) == SETTLED for _, near in self._hearing(now))

    def _silence(self, near: Neighbour, now: float) -> float:
        return now - max(near.sign_at, self._since)

    def _is_silent(self, near: Neighbour, now: float) -> bool:
        """It gave signs lately, and gives none now. ``known`` or not: of two such nodes none is dead."""
        return not near.settled and _SUSPECT_S <= now - near.sign_at <= _ABSENT_S

    def _view(self, near: Neighbour, now: float) -> float:
        if near.settled:
            return SETTLED
        silent = self._is_silent(near, now)
        if not near.known or near.blind:
            return LOST if silent else UNKNOWN
        if not silent:
            return ALIVE
        silent_s = self._silence(near, now)
        return silent_s if silent_s >= _SUSPECT_S else LOST

    def _beat(self, to: SlurmName, near: Neighbour, views: Mapping[SlurmName, float]) -> Heartbeat:
        return Heartbeat(
            sender=self._me,
            to=to,
            run=self._run,
            tick=self._tick,
            echo_run=near.echo[0],
            echo_tick=near.echo[1],
            views=views,
        )

    def _to_connect(self, now: float) -> tuple[SlurmName, ...]:
        names = []
        for name in self._watched:
            near = self._near[name]
            every_s = _SELDOM_S if now - near.sign_at > _ABSENT_S else INTERVAL_S - HURRY_S
            if now - near.tried_at >= every_s:
                near.tried_at = now
                names.append(name)
        return tuple(names)

    # --- the decision --------------------------------------------------------------------------

    def _hearing(self, now: float) -> list[tuple[SlurmName, Neighbour]]:
        """The neighbours that are heard now and hear this node."""
        return [
            (name, near)
            for name, near in self._near.items()
            if now - near.beat_at <= _FRESH_S and now - near.hears_at <= 2 * _FRESH_S
        ]

    def _decide(
        self, views: Mapping[SlurmName, float], now: float
    ) -> tuple[tuple[Death, ...], tuple[str, ...]]:
        silent = {name for name in self._watched if self._is_silent(self._near[name], now)}
        if not silent:
            self._held = ""
        for _, near in self._hearing(now):
            silent |= {
                name for name, view in near.views.items() if view >= _SUSPECT_S or view == LOST
            }
        silent.discard(self._me)
        # Machines die one by one; several at once are a switch, a power feed or this node's own
        # network.
        if len(silent) > 1:
            self._since = now
            return (), self._hold(f"{len(silent)} nodes fell silent at once")
        long = [name for name in self._watched if views[name] >= self._silent_s]
        if not long:
            return (), ()
        (name,) = long
        near = self._near[name]
        if near.asked:
            return (), ()
        agreed, why = self._agreed(name, now)
        if why:
            return (), self._hold(f"{name} is silent, but {why}")
        # All watchers decide the same at once; Slurm should get one request.
        if views[name] < self._silent_s + _TURN_S * agreed.index(self._me):
            return (), ()
        near.asked = True
        self._held = ""
        death = Death(name=name, silent_s=views[name], agreed=agreed, run=near.run)
        return (death,), ()

    def _agreed(self, name: SlurmName, now: float) -> tuple[tuple[SlurmName, ...], str]:
        """The watchers that find the node silent, or why they are not enough."""
        # Only of nodes that hear this one: the others may be cut off, and find everybody silent.
        opinions = {who: near.views[name] for who, near in self._hearing(now) if name in near.views}
        alive = [who for who, view in opinions.items() if ALIVE <= view < _SUSPECT_S]
        if alive:
            return (), f"{alive[0]} hears it"
        agree = [who for who, view in opinions.items() if view >= self._silent_s]
        watchers = neighbours(self._order, name, WATCHED)
        there = [who for who in watchers if who == self._me or self._present(who, now)]
        count = len(agree) + 1  # this node too
        if count < _LEAST_WATCHERS or 2 * count <= len(there):
            return (), f"{count} of {len(there)} watchers say so"
        return ring([self._me, *agree]), ""

    def _present(self, name: SlurmName, now: float) -> bool:
        near = self._near.get(name)
        return near is not None and not near.settled and now - near.beat_at <= _ABSENT_S

    def _hold(self, why: str) -> tuple[str, ...]:
        """The line, once for each silence."""
        if self._held:
            return ()
        self._held = why
        return (f"no node is set DOWN: {why}",)
