"""A store under everything that may happen to it, as a state machine.

What the store must hold is `Kept`: plain sets, by epoch. Every rule does one thing to the store and to `Kept`; after
every rule the database in memory, and one that is opened from the disk, are compared with it. Rules draw a seed each,
so that a failing run shrinks to few steps, and says which.
"""

from __future__ import annotations

import gc
import os
import random
import select
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import sempre
from sempre.api.stores import check_files, vacuum
from sempre.lang import syntax as s
from sempre.lang.printer import to_text
from sempre.storage.store import Store
from tests.disks import FAST
from tests.engine import SMALL_PIECES, STRATEGIES, Changes, Truth, compare, lists, table_rows, updated
from tests.inside import keeper_of
from tests.interrupts import COMMITTING, Sent, interrupted
from tests.oracle.naive import Facts, explicit_facts
from tests.property.subjects import UNKNOWN, Subject, known_part, open_columns, subject
from tests.property.texts import other_text
from tests.refusals import code_of

SEEDS = st.integers(0, 2**32 - 1)
MODULES = ("auto", "auto", "off", "tc", "seq", "tc,stc,rch")
# How long one thread is held for another that may be waiting for it.
HELD = 0.15
# How long a thread or a process may take before it is taken to hang.
PATIENCE = 60


@dataclass
class Kept:
    """What every epoch must hold."""

    program: s.ParsedProgram
    states: dict[int, Truth] = field(default_factory=dict)
    epoch: int = 0

    @property
    def now(self) -> Truth:
        return self.states[self.epoch]

    def after(self, change: Changes, base: Truth | None = None) -> Truth:
        """The state that a change leads to; nothing is kept."""
        return Truth(known_part(self.program), updated((base or self.now).explicit, *change))

    def advance(self, state: Truth) -> None:
        self.epoch += 1
        self.states[self.epoch] = state


class StoreMachine(RuleBasedStateMachine):
    """See above. `kind` names the programs it runs with."""

    kind = "paths"

    # --------------------------------------------------------------------------------------- beginning and end

    def __init__(self) -> None:
        super().__init__()
        self.home = Path.cwd()
        self.folder = Path(tempfile.mkdtemp(prefix="sempre-machine-", dir=FAST))
        for name in ("here", "there"):
            (self.folder / name).mkdir()
        self.store = self.folder / "here" / "store"
        self.decoy = self.folder / "there" / "store"
        self.db: sempre.Database | None = None
        self.steps = 0
        # How many moments an epoch had at last, where it is committed and in all.
        self.lengths = {True: 500, False: 4_000}
        self.on_progress: Callable[[], None] | None = None
        self.late: list[Callable[[], None]] = []

    @initialize(seed=SEEDS)
    def start(self, seed: int) -> None:
        rng = self.dice(seed)
        self.subject: Subject = subject(self.kind, rng)
        self.text = self.subject.program
        self.kept = Kept(self.text)
        self.kept.states[0] = Truth(known_part(self.text), explicit_facts(known_part(self.text)))
        self.attentive = rng.random() < 0.7
        note(to_text(self.text))
        self.open(rng)
        assert self.opened.epoch == 0

    def teardown(self) -> None:
        try:
            if self.db is not None:
                self.db.close()
            if hasattr(self, "kept") and sys.exc_info()[0] is None:
                self.settle()
                self.look_at_disk()
                check_files(self.store)
                if self.decoy.exists():
                    with sempre.Database.open(self.decoy) as decoy:
                        assert decoy.epoch == 1, "a store of another folder was written"
        finally:
            os.chdir(self.home)
            shutil.rmtree(self.folder, ignore_errors=True)

    def dice(self, seed: int) -> random.Random:
        """What a rule does at random; the same number means something else at another step."""
        self.steps += 1
        return random.Random(f"{seed} {self.steps}")

    @property
    def opened(self) -> sempre.Database:
        assert self.db is not None
        return self.db

    def progress(self, _: Any) -> None:
        if self.on_progress is not None:
            self.on_progress()

    def open(self, rng: random.Random, **options: Any) -> None:
        """Open the store, as some place and with some options."""
        place: object = self.store
        if rng.random() < 0.3:
            place = os.path.relpath(self.store)
        strategy, modules = rng.choice(STRATEGIES), rng.choice(MODULES)
        note(f"  open {place} strategy={strategy} modules={modules} {options}")
        self.db = sempre.Database(
            sempre.Program(to_text(self.text)),
            store=place, strategy=strategy, modules=modules, progress=self.progress,
            limits=SMALL_PIECES, **options,
        )  # fmt: skip

    # ---------------------------------------------------------------------------------------------- comparing

    @invariant()
    def the_state_is_what_it_must_be(self) -> None:
        if self.db is None:
            return
        assert self.db.epoch == self.kept.epoch, "in memory"
        if self.attentive:
            self.look_at(self.db, self.kept.now, "in memory")
        self.look_at_disk()

    def look_at(self, db: sempre.Database, expected: Truth, where: str) -> None:
        compare(db, expected.facts, where)
        for name in db:
            if name.startswith(UNKNOWN):
                rows = list(db[name])
                assert {x for x, _ in rows} == {x for row in expected.facts["e"] for x in row}, f"{name} {where}"
                assert len({n for _, n in rows}) == len(rows), f"{name} {where}"

    def look_at_disk(self) -> None:
        with sempre.Database.open(self.store, limits=SMALL_PIECES) as fresh:
            assert fresh.epoch == self.kept.epoch, "on the disk"
            self.look_at(fresh, self.kept.now, "on the disk")

    def announced(self, changes: sempre.ChangeSet, before: Truth, after: Truth, rng: random.Random) -> None:
        """Changes must be the difference of the states, whether they are looked at now or later."""
        db = self.opened

        def look() -> None:
            for name in after.facts:
                added, removed = (table_rows(db, name, side[name]) for side in (changes.added, changes.removed))
                assert added == after.facts[name] - before.facts[name], f"added to {name}"
                assert removed == before.facts[name] - after.facts[name], f"removed from {name}"

        if rng.random() < 0.7:
            look()
        else:
            self.late.append(look)

    def settle(self) -> None:
        """Look at the changes that nobody has looked at yet."""
        while self.late:
            self.late.pop()()

    # ---------------------------------------------------------------------------------------- ordinary things

    def change(self, rng: random.Random) -> Changes:
        found = self.subject.change(self.text, self.kept.now.explicit, rng)
        note(f"  insert {found[0]} delete {found[1]}")
        return found

    def writing(self, work: Callable[[], Any], rng: random.Random) -> Any:
        """Do what changes the store; a database that a vacuum has overtaken is opened again."""
        try:
            return work()
        except sempre.StateError as error:
            if error.diagnostics[0].code != "E609":
                raise
            self.opened.close()
            self.open(rng)
            return work()

    @rule(seed=SEEDS)
    def apply(self, seed: int) -> None:
        self.settle()
        rng = self.dice(seed)
        change, before = self.change(rng), self.kept.now
        after = self.kept.after(change)
        changes = self.writing(lambda: self.opened.apply(insert=lists(change[0]), delete=lists(change[1])), rng)
        self.kept.advance(after)
        self.announced(changes, before, after, rng)

    @rule(seed=SEEDS)
    def transact(self, seed: int) -> None:
        """The last operation on a fact wins; an exception leaves nothing behind."""
        rng = self.dice(seed)
        insert, delete = self.change(rng)
        again = {name: set(rng.sample(sorted(rows, key=repr), len(rows) // 2)) for name, rows in insert.items()}
        fails = rng.random() < 0.3

        def work() -> sempre.ChangeSet | None:
            with self.opened.transaction() as transaction:
                for name, rows in lists(delete).items():
                    transaction.delete(name, rows)
                for name, rows in lists(insert).items():
                    transaction.insert(name, rows)
                for name, rows in lists(again).items():
                    transaction.delete(name, rows)
                if fails:
                    raise ZeroDivisionError
            return transaction.changes

        before = self.kept.now
        try:
            changes = self.writing(work, rng)
        except ZeroDivisionError:
            return
        gone = {name: delete.get(name, set()) | again.get(name, set()) for name in {*delete, *again}}
        left = {name: rows - again.get(name, set()) for name, rows in insert.items()}
        after = self.kept.after((left, gone))
        self.kept.advance(after)
        self.announced(changes, before, after, rng)

    @rule(seed=SEEDS)
    def ask_what_if(self, seed: int) -> None:
        rng = self.dice(seed)
        change, before = self.change(rng), self.kept.now
        changes = self.opened.whatif(insert=lists(change[0]), delete=lists(change[1]))
        self.announced(changes, before, self.kept.after(change), rng)

    @rule(seed=SEEDS)
    def read(self, seed: int) -> None:
        """Some relations, each in some way; what nobody stored is not remembered because somebody asked for it."""
        rng, db = self.dice(seed), self.opened
        kinds = open_columns(self.text)
        symbols = len(db._backend.values.symbols)
        for name, rows in sorted(self.kept.now.facts.items()):
            if rng.random() < 0.5 or name not in kinds:
                continue
            view = db[name]
            match rng.randrange(4):
                case 0:
                    assert len(view) == len(rows), name
                case 1:
                    assert table_rows(db, name, view.to_arrow()) == rows, name
                case 2:
                    row = self.subject.row(rng, kinds[name])
                    assert (row in view) == (row in rows), (name, row)
                case _:
                    self.query(name, rng)
        assert len(db._backend.values.symbols) == symbols, "reading has grown the table of symbols"

    def query(self, name: str, rng: random.Random) -> None:
        kinds, rows = open_columns(self.text)[name], self.kept.now.facts[name]
        if any(kind not in ("number", "symbol") for kind in kinds) or not kinds:
            return
        asked = self.subject.row(rng, kinds)
        fixed = [rng.random() < 0.4 for _ in kinds]
        words = [f'"{v}"' if isinstance(v, str) else str(v) for v in asked]
        if any(set(word[1:-1]) & set('"\t\\') for word in words):
            return
        shown = [word if fixed[i] else f"X{i}" for i, word in enumerate(words)]
        text = f"{name}({', '.join(shown)})"
        found = {row for row in rows if all(row[i] == asked[i] for i in range(len(kinds)) if fixed[i])}
        answer = self.opened.query(text)
        if all(fixed):
            assert answer.num_rows == len(found), text
        else:
            wanted = {tuple(v for i, v in enumerate(row) if not fixed[i]) for row in found}
            assert set(zip(*answer.to_pydict().values(), strict=True)) == wanted, text

    @rule()
    def verify(self) -> None:
        found = self.opened.verify()
        assert found.ok, found
        check_files(self.store)

    @rule(seed=SEEDS)
    def look_back(self, seed: int) -> None:
        """Epochs that are still there read as they were."""
        rng = self.dice(seed)
        epochs = keeper_of(self.opened).store.epochs()
        assert epochs[-1] == self.kept.epoch
        epoch = rng.choice(epochs)
        with self.opened.at_epoch(epoch) as past:
            assert past.epoch == epoch
            self.look_at(past, self.kept.states[epoch], f"at epoch {epoch}")
            assert code_of(past.apply) == "E610", "a past epoch was changed"

    @rule(seed=SEEDS)
    def refuse(self, seed: int) -> None:
        """Rows that are none leave nothing behind."""
        rng = self.dice(seed)
        (insert, delete), names = self.change(rng), sorted(open_columns(self.text))
        bad = {**lists(insert), rng.choice(names): [(None,) * 17]}
        try:
            self.opened.apply(insert=bad, delete=lists(delete))
        except sempre.DataError:
            return
        raise AssertionError("rows of 17 columns were taken")

    # ---------------------------------------------------------------------------------------- opening again

    @rule(seed=SEEDS)
    def reopen(self, seed: int) -> None:
        """With another strategy, other modules, another text of the same program."""
        rng = self.dice(seed)
        self.settle()
        self.opened.close()
        if rng.random() < 0.5:
            self.text = other_text(self.text, rng)
            note(to_text(self.text))
        self.open(rng)
        if rng.random() < 0.7:
            self.apply(seed)

    @rule(seed=SEEDS, keep=st.integers(1, 3), first=st.booleans())
    def vacuum(self, seed: int, keep: int, first: bool) -> None:
        """While it is closed, or while somebody has it open who has not written yet."""
        self.settle()
        rng, db = self.dice(seed), self.opened
        if first:
            db.close()
        elif keeper_of(db).store.is_locked:
            found = code_of(partial(vacuum, self.store, keep=keep))
            assert found == "E603", "a store was vacuumed under its writer"
            return
        vacuum(Store(self.store, limits=SMALL_PIECES), keep=keep)
        assert keeper_of(db).store.epochs()[-1] == self.kept.epoch
        if first:
            self.open(rng)
        if rng.random() < 0.5:
            self.apply(seed)

    @precondition(lambda self: bool(self.subject.others))
    @rule(seed=SEEDS)
    def migrate(self, seed: int) -> None:
        """To a program that derives something else; explicit facts stay where the declaration does."""
        rng = self.dice(seed)
        self.settle()
        other = rng.choice(self.subject.others)
        self.opened.close()
        state, self.text = self.migrated(other), other
        note(to_text(other))
        self.open(rng, migrate=True)
        self.arrived(other, state, self.opened.epoch)

    def migrated(self, other: s.ParsedProgram) -> Truth:
        old, new = _shapes(self.text), _shapes(other)
        explicit: Facts = {n: set(rows) for n, rows in self.kept.now.explicit.items() if old.get(n) == new.get(n)}
        before, after = explicit_facts(known_part(self.text)), explicit_facts(known_part(other))
        for name in new:
            gone = before.get(name, set()) - after.get(name, set())
            come = after.get(name, set()) - before.get(name, set())
            explicit[name] = (explicit.get(name, set()) - gone) | come
        return Truth(known_part(other), explicit)

    def arrived(self, other: s.ParsedProgram, state: Truth, epoch: int) -> None:
        """A migration is an epoch, unless the program meant the same; then the state has to be the same, too."""
        self.kept.program = other
        if epoch == self.kept.epoch:
            self.kept.states[epoch] = state
        else:
            self.kept.advance(state)

    @rule()
    def go_elsewhere(self) -> None:
        """The folder of the process changes; what was opened stays what it is."""
        if not self.decoy.exists():
            with sempre.Database(sempre.Program(to_text(self.subject.program)), store=self.decoy) as decoy:
                decoy.apply()
        at = Path.cwd()
        os.chdir(self.folder / ("there" if at.name == "here" else "here"))

    # -------------------------------------------------------------------------------------------- interrupts

    @rule(seed=SEEDS, committing=st.booleans())
    def interrupt_an_epoch(self, seed: int, committing: bool) -> None:
        """It has happened, or it has not: in memory as on the disk. Every other time it is about to happen."""
        rng = self.dice(seed)
        length = self.lengths[committing]
        moment = rng.randrange(length) if rng.random() < 0.5 else length - rng.randrange(1 + length // 6)
        change, before = self.change(rng), self.kept.now
        after = self.kept.after(change)
        db = self.opened
        try:
            sent = self.under(lambda: db.apply(insert=lists(change[0]), delete=lists(change[1])), moment, committing)
        except sempre.StateError as error:
            if error.diagnostics[0].code != "E609":
                raise
            return
        assert self.kept.epoch <= db.epoch <= self.kept.epoch + 1, sent
        if not sent.sent:
            self.lengths[committing] = max(10, sent.moments)
        if db.epoch > self.kept.epoch:
            self.kept.advance(after)
        if sent.ended:
            assert db.epoch == self.kept.epoch
            self.announced(sent.result, before, after, rng)
        self.the_state_is_what_it_must_be()

    def under(self, work: Callable[[], Any], moment: int, committing: bool) -> Sent:
        """Do something under an interrupt: where epochs are committed, or anywhere."""
        sent = interrupted(work, moment, COMMITTING if committing else ())
        note(f"  {sent}")
        return sent

    @rule(seed=SEEDS, moment=st.integers(0, 900), committing=st.booleans())
    def interrupt_a_question(self, seed: int, moment: int, committing: bool) -> None:
        rng = self.dice(seed)
        insert, delete = self.change(rng)
        db = self.opened
        name = rng.choice(sorted(self.kept.now.facts))

        def look_back() -> None:
            with db.at_epoch(self.kept.epoch) as past:
                list(past[name])

        works: tuple[Callable[[], Any], ...] = (
            lambda: db.whatif(insert=lists(insert), delete=lists(delete)),
            db.verify,
            lambda: list(db[name]),
            look_back,
        )
        self.under(rng.choice(works), moment if committing else moment * 8, committing)

    @rule(seed=SEEDS, moment=st.integers(0, 300), part=st.sampled_from(("close", "open", "vacuum", "migrate")))
    def interrupt_coming_and_going(self, seed: int, moment: int, part: str) -> None:
        """Whatever was cut short can be done again, and the store has a writer when somebody wants to be that."""
        rng = self.dice(seed)
        self.settle()
        db, self.db = self.opened, None
        committing = rng.random() < 0.5
        moment *= 1 if committing else 8
        if part == "close":
            self.under(db.close, moment % 40, committing)
        db.close()
        match part:
            case "open":
                self.under(lambda: self.open(rng), moment, committing)
                self.leave()
            case "vacuum":
                self.under(
                    lambda: vacuum(Store(self.store, limits=SMALL_PIECES), keep=rng.randint(1, 2)), moment, committing
                )
            case "migrate" if self.subject.others:
                self.interrupt_a_migration(moment, committing, rng)
        gc.collect()
        self.open(rng)
        self.apply(seed)

    def leave(self) -> None:
        """Close what was opened, if that came so far."""
        if self.db is not None:
            self.db.close()

    def interrupt_a_migration(self, moment: int, committing: bool, rng: random.Random) -> None:
        other, text = rng.choice(self.subject.others), self.text
        state, self.text = self.migrated(other), other
        note(f"  migrating to\n{to_text(other)}")
        self.under(lambda: self.open(rng, migrate=True), moment, committing)
        self.leave()
        with sempre.Database.open(self.store, limits=SMALL_PIECES) as fresh:
            epoch = fresh.epoch
        assert self.kept.epoch <= epoch <= self.kept.epoch + 1
        if epoch == self.kept.epoch:
            self.text = text
        else:
            self.arrived(other, state, epoch)

    # ------------------------------------------------------------------------- threads, processes, reentrance

    @rule(seed=SEEDS)
    def ask_in_another_thread(self, seed: int) -> None:
        """A question that takes long, and epochs meanwhile: nothing of them is lost, and it is about one of them."""
        rng = self.dice(seed)
        self.apply(seed)
        self.settle()
        question, db = self.change(rng), self.opened
        done = threading.Event()
        running = Running(lambda: db.whatif(insert=lists(question[0]), delete=lists(question[1])))
        self.on_progress = lambda: running.hold(done)
        states = [self.kept.now]
        try:
            running.start()
            running.wait_inside()
            for _ in range(rng.randint(1, 2)):
                change = self.change(rng)
                after = self.kept.after(change)
                self.writing_beside(change)
                self.kept.advance(after)
                states.append(after)
        finally:
            self.on_progress = None
            done.set()
        changes = running.result()
        ends = [self.kept.after(question, state) for state in states]
        found = {name: _sides(db, changes, name) for name in states[0].facts}
        assert any(found == _difference(state, end) for state, end in zip(states, ends, strict=True)), "the answer"

    def writing_beside(self, change: Changes) -> sempre.ChangeSet:
        """An epoch while others use the database, which is the writer."""
        return self.opened.apply(insert=lists(change[0]), delete=lists(change[1]))

    @rule(seed=SEEDS)
    def write_in_two_threads(self, seed: int) -> None:
        """Two epochs, in one order or the other."""
        rng = self.dice(seed)
        self.apply(seed)
        self.settle()
        one, other, db = self.change(rng), self.change(rng), self.opened
        done = threading.Event()
        running = Running(lambda: self.writing_beside(one))
        self.on_progress = lambda: running.hold(done)
        try:
            running.start()
            running.wait_inside()
            second = self.writing_beside(other)
        finally:
            self.on_progress = None
            done.set()
        first = running.result()
        start = self.kept.now
        orders = [((one, first), (other, second)), ((other, second), (one, first))]
        for order in orders:
            middle = self.kept.after(order[0][0], start)
            end = self.kept.after(order[1][0], middle)
            pairs = ((order[0][1], start, middle), (order[1][1], middle, end))
            if all({n: _sides(db, got, n) for n in a.facts} == _difference(a, b) for got, a, b in pairs):
                self.kept.advance(middle)
                self.kept.advance(end)
                return
        raise AssertionError("the changes that were announced are those of no order")

    @rule(seed=SEEDS)
    def close_in_another_thread(self, seed: int) -> None:
        """An epoch that runs is committed, or it is refused and has not happened; no later one is taken."""
        rng = self.dice(seed)
        self.apply(seed)
        self.settle()
        change, db = self.change(rng), self.opened
        after = self.kept.after(change)
        done = threading.Event()
        running = Running(lambda: db.apply(insert=lists(change[0]), delete=lists(change[1])))
        self.on_progress = lambda: running.hold(done)
        try:
            running.start()
            if rng.random() < 0.7:
                running.wait_inside()
            else:
                time.sleep(rng.random() * 0.03)
            db.close()
        finally:
            self.on_progress = None
            done.set()
        self.db = None
        if not _is_refused(running.result):
            self.kept.advance(after)
        assert _is_refused(db.apply), "a closed database took an epoch"
        self.open(rng)

    @rule(seed=SEEDS)
    def read_in_another_thread(self, seed: int) -> None:
        """Whoever reads sees a relation as one of the epochs has it."""
        rng = self.dice(seed)
        self.apply(seed)
        self.settle()
        db, names = self.opened, sorted(self.kept.now.facts)
        states, stop = [self.kept.now], threading.Event()

        def look() -> list[tuple[str, set[Any]]]:
            seen: list[tuple[str, set[Any]]] = []
            while not stop.is_set() and len(seen) < 60:
                name = names[len(seen) % len(names)]
                seen.append((name, table_rows(db, name, db[name].to_arrow())))
            return seen

        running = Running(look)
        running.start()
        try:
            for _ in range(2):
                change = self.change(rng)
                after = self.kept.after(change)
                self.writing_beside(change)
                self.kept.advance(after)
                states.append(after)
        finally:
            stop.set()
        for name, rows in running.result():
            assert any(rows == state.facts[name] for state in states), f"{name} was read as it never was"

    @rule(seed=SEEDS)
    def apply_inside_of_apply(self, seed: int) -> None:
        """From `progress`: the inner epoch comes first, and the outer one is about what it leaves."""
        self.apply(seed)
        self.settle()
        rng, db, start = self.dice(seed), self.opened, self.kept.now
        inner, outer = self.change(rng), self.change(rng)
        middle = self.kept.after(inner)
        taken: list[sempre.ChangeSet] = []

        def again() -> None:
            self.on_progress = None
            name = rng.choice(sorted(start.facts))
            assert table_rows(db, name, db[name].to_arrow()) == start.facts[name]
            assert code_of(db.close), "a database was closed in the middle of an epoch"
            if rng.random() < 0.3:
                db.whatif(insert=lists(inner[0]), delete=lists(inner[1]))
            taken.append(db.apply(insert=lists(inner[0]), delete=lists(inner[1])))
            assert table_rows(db, name, db[name].to_arrow()) == middle.facts[name]

        self.on_progress = again
        try:
            changes = db.apply(insert=lists(outer[0]), delete=lists(outer[1]))
        finally:
            self.on_progress = None
        if taken:
            self.kept.advance(middle)
            self.announced(taken[0], start, middle, rng)
        before, after = self.kept.now, self.kept.after(outer)
        self.kept.advance(after)
        self.announced(changes, before, after, rng)

    @rule(seed=SEEDS, writer=st.booleans(), closes=st.booleans())
    def fork(self, seed: int, writer: bool, closes: bool) -> None:
        """A forked process is not the writer, and neither gives the lock back nor keeps it from the next one."""
        rng = self.dice(seed)
        if writer:
            self.apply(seed)
        self.settle()
        change, db = self.change(rng), self.opened
        child = Child(partial(_as_child, db, change))
        try:
            told = child.told()
            if told == "written" and not writer:  # nobody was the writer, so it could become that
                self.kept.advance(self.kept.after(change))
                db.close()
                self.open(rng)
                return
            assert told == "refused", f"the child: {told}"
            self.apply(seed + 1)
            with sempre.Database.open(self.store, limits=SMALL_PIECES) as second:
                assert code_of(second.apply) == "E603", "there are two writers"
            if closes:
                self.settle()
                self.opened.close()
                self.open(rng)
                self.apply(seed + 2)
        finally:
            child.finish()


class Running(threading.Thread):
    """Work in another thread, which can be held in the middle."""

    def __init__(self, work: Callable[[], Any]) -> None:
        super().__init__(daemon=True)
        self._work = work
        self._inside = threading.Event()
        self._found: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._found = self._work()
        except BaseException as error:  # noqa: BLE001  # raised again where the result is asked for
            self._error = error
        finally:
            self._inside.set()

    def hold(self, done: threading.Event) -> None:
        """Called from the work: stay here until the others are done, or must be waiting for us."""
        if threading.current_thread() is self and not self._inside.is_set():
            self._inside.set()
            done.wait(HELD)

    def wait_inside(self) -> None:
        assert self._inside.wait(PATIENCE)

    def result(self) -> Any:
        self.join(PATIENCE)
        assert not self.is_alive(), "a thread hangs"
        if self._error is not None:
            raise self._error
        return self._found


class Child:
    """A forked process that does something, tells of it, and stays until it is told to go."""

    def __init__(self, work: Callable[[], str]) -> None:
        told, self._tell = os.pipe()
        stay, self._go = os.pipe()
        self._told = told
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._go)
                os.write(self._tell, work().encode())
                os.close(self._tell)
                os.read(stay, 1)
            finally:
                os._exit(0)
        os.close(self._tell)
        os.close(stay)

    def told(self) -> str:
        ready, _, _ = select.select([self._told], [], [], PATIENCE)
        return os.read(self._told, 4_000).decode() if ready else "hangs"

    def finish(self) -> None:
        os.close(self._go)
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._told)


def _as_child(db: sempre.Database, change: Changes) -> str:
    try:
        db.apply(insert=lists(change[0]), delete=lists(change[1]))
        found = "written"
    except sempre.StateError:
        found = "refused"
    except BaseException as error:  # noqa: BLE001  # told to the parent
        return repr(error)
    if found == "refused":
        db.close()
    return found


def _is_refused(work: Callable[[], Any]) -> bool:
    """Whether something cannot be done because the database is closed."""
    try:
        work()
    except sempre.StateError as error:
        if "closed" not in str(error):
            raise
        return True
    return False


def _sides(db: sempre.Database, changes: sempre.ChangeSet, name: str) -> tuple[Any, Any]:
    return table_rows(db, name, changes.added[name]), table_rows(db, name, changes.removed[name])


def _difference(before: Truth, after: Truth) -> dict[str, tuple[Any, Any]]:
    return {n: (after.facts[n] - before.facts[n], before.facts[n] - after.facts[n]) for n in before.facts}


def _shapes(program: s.ParsedProgram) -> dict[str, Any]:
    """The relations as far as their facts depend on it."""
    return {item.name: item.attributes for item in program.items if isinstance(item, s.RelationDecl)}
