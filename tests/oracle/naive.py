"""The reference evaluator: sets, dicts and loops. It shares the syntax tree with sempre, and nothing else.

    explicit_facts(program)          the program's own facts
    evaluate(program, facts)         all relations, from the program's own facts and `facts`
    materialize(program, explicit)   the same from exactly the facts in `explicit`
    instances, iterations            the counters (see `counters`)

Facts are tuples of Python values (see `values`, which also says what functors mean). Inline relations are not in the
result. What the language leaves open is settled so:

- Strata are the strongly connected components of "is used by", evaluated in order. A negated or aggregated relation in
  the same component is an `OracleError`.
- In a stratum: start from nothing and apply all rules and explicit facts to the previous state, until the state stays
  as it is. For ordinary rules this is the least fixpoint. Aggregates in heads replace each group by its aggregate at
  every step, so that `dist(y, min(d + w))` ends in the shortest distances; a run that does not end is an `OracleError`.
- An aggregate in a body ranges over the distinct assignments to the variables of its body that are not shared with the
  outside, `_` included (see `clauses` for what is shared); its expression counts once per assignment. `count` and `sum`
  of nothing are 0; a literal with `min`, `max` or `mean` of nothing is false. A sum must fit in the end; `mean` is the
  sum divided by the count, as a float.
- An aggregate in a head ranges over the values of all rule instances of the relation in the group, and of its explicit
  facts in that group: for `min`, `max` and `sum` the fact's own value, for `count` the fact counts as one.
- An `eqrel` relation is closed to an equivalence over the elements in it, after every step.
- `!body` is true when no assignment to the local variables of `body` makes it true.
- Whether an operation fails (overflow, division by zero) on rows that another literal of the same body excludes is not
  defined: an implementation may test literals in any order. Programs under comparison stay clear of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from sempre.lang import syntax as s
from tests.oracle.clauses import (
    INLINED,
    Absent,
    Clause,
    Clauses,
    Expr,
    Fold,
    Literal,
    Match,
    Spread,
    Tuple,
    Var,
    clauses_of,
    value,
)
from tests.oracle.strata import Stratum, stratify
from tests.oracle.values import OracleError, Row, Value, coerce, compare, fold, same, spread

Facts = dict[str, set[Row]]
Env = dict[str, Value]
MAX_ROUNDS = 10_000


def explicit_facts(program: s.ParsedProgram) -> Facts:
    """The facts that the program itself states."""
    return {relation: set(rows) for relation, rows in clauses_of(program).facts.items()}


def evaluate(program: s.ParsedProgram, facts: Facts) -> Facts:
    """All relations of the program that are not inline, given its own facts and `facts`."""
    explicit = explicit_facts(program)
    for relation, rows in facts.items():
        explicit[relation] = explicit.get(relation, set()) | rows
    return materialize(program, explicit)


def materialize(program: s.ParsedProgram, explicit: Facts) -> Facts:
    """All relations of the program that are not inline, given exactly the explicit facts `explicit`."""
    clauses = clauses_of(program)
    explicit = typed(clauses, explicit)
    state = State({name: set() for name in clauses.schema.columns if name not in clauses.schema.inline})
    for stratum in stratify(clauses):
        _fixpoint(clauses, stratum, explicit, state)
    return state.relations


def typed(clauses: Clauses, facts: Facts) -> Facts:
    """`facts` with values as their columns hold them."""
    columns = clauses.schema.columns
    return {relation: {tuple(map(coerce, row, columns[relation])) for row in rows} for relation, rows in facts.items()}


class State:
    """The relations as they are now, with lookups by known columns."""

    def __init__(self, relations: Facts) -> None:
        self.relations = relations
        self._indexes: dict[tuple[str, tuple[int, ...]], dict[Row, list[Row]]] = {}

    def replace(self, relation: str, rows: set[Row]) -> bool:
        """Sets a relation; says whether that changed it."""
        if self.relations[relation] == rows:
            return False
        self.relations[relation] = rows
        self._indexes = {key: index for key, index in self._indexes.items() if key[0] != relation}
        return True

    def rows(self, relation: str, columns: tuple[int, ...], key: Row) -> Iterable[Row]:
        """The rows that have `key` in `columns`."""
        if not columns:
            return self.relations[relation]
        if (relation, columns) not in self._indexes:
            index: dict[Row, list[Row]] = {}
            for row in self.relations[relation]:
                index.setdefault(tuple(row[i] for i in columns), []).append(row)
            self._indexes[relation, columns] = index
        return self._indexes[relation, columns].get(key, ())


def guarded(clauses: Clauses) -> set[str]:
    """The relations with a subsumption or a limit: they do not keep all rows."""
    return {*(clause.relation for clause in clauses.dominances), *(name for name, _ in clauses.limits)}


def _fixpoint(clauses: Clauses, stratum: Stratum, explicit: Facts, state: State) -> None:
    if guarded(clauses) & set(stratum.relations):
        _rounds(clauses, stratum, explicit, state)
        return
    for _ in range(MAX_ROUNDS):
        following = {name: consequences(clauses, stratum, name, explicit, state) for name in stratum.relations}
        changed = [state.replace(name, rows) for name, rows in following.items()]
        if not any(changed) or not stratum.recursive:
            return
    raise OracleError(f"no fixpoint for {sorted(stratum.relations)}")


def _rounds(clauses: Clauses, stratum: Stratum, explicit: Facts, state: State) -> None:
    """A stratum with subsumption or a limit: rounds that add up, without the rows that others stand for."""
    for _ in range(MAX_ROUNDS):
        before = {name: state.relations[name] for name in stratum.relations}
        following = {
            name: before[name] | consequences(clauses, stratum, name, explicit, state) for name in stratum.relations
        }
        for name, rows in following.items():
            state.replace(name, rows)
        for name, rows in following.items():
            pairs = {
                (head[: len(head) // 2], head[len(head) // 2 :])
                for clause in clauses.dominances
                if clause.relation == name
                for head, _ in fire(clause, state)
            }
            state.replace(name, undominated(rows, pairs))
        full = any(len(state.relations[name]) >= limit for name, limit in clauses.limits if name in stratum.relations)
        if full or not stratum.recursive or before == {name: state.relations[name] for name in stratum.relations}:
            return
    raise OracleError(f"no fixpoint for {sorted(stratum.relations)}")


def undominated(rows: set[Row], pairs: set[tuple[Row, Row]]) -> set[Row]:
    """The rows that no other row stands for; of rows that stand for each other the least."""
    apart = {(row, other) for row, other in pairs if row != other}
    left = rows - {row for row, other in apart if (other, row) not in apart}
    for row in sorted(left):
        if row in left:
            left -= {other for other in left if (other, row) in apart and (row, other) in apart}
    return left


def consequences(clauses: Clauses, stratum: Stratum, relation: str, explicit: Facts, state: State) -> set[Row]:
    """What the rules and explicit facts of `relation` give in `state`."""
    rules = [rule for rule in stratum.rules if rule.relation == relation]
    aggregate = next((rule.aggregate for rule in rules if rule.aggregate), None)
    derived = [head for rule in rules for head, _ in fire(rule, state)]
    if aggregate is not None:
        operand = clauses.schema.columns[relation][aggregate[1]]
        return grouped([*derived, *explicit.get(relation, ())], *aggregate, operand)
    rows = set(derived) | explicit.get(relation, set())
    return closure(rows) if relation in clauses.schema.equivalences else rows


def grouped(rows: list[Row], kind: str, column: int, operand: str) -> set[Row]:
    """One row per group, its column `column` aggregated over `rows`."""
    groups: dict[Row, list[Value]] = {}
    for row in rows:
        groups.setdefault(row[:column] + row[column + 1 :], []).append(row[column])
    return {(*g[:column], fold(kind, values, operand), *g[column:]) for g, values in groups.items()}


def closure(pairs: set[Row]) -> set[Row]:
    """The least equivalence over the elements of `pairs`."""
    classes: dict[Value, set[Value]] = {element: {element} for pair in pairs for element in pair}
    for left, right in pairs:
        if classes[left] is not classes[right]:
            merged = classes[left] | classes[right]
            classes.update(dict.fromkeys(merged, merged))
    return {(left, right) for left, members in classes.items() for right in members}


# -------------------------------------------------------------------------------------------------- solving


def fire(clause: Clause, state: State) -> Iterator[tuple[Row, Env]]:
    """Every instance of the rule that holds in `state`: the head and the assignment."""
    for env in solve(clause.body, {}, state):
        yield tuple(value(arg, env) for arg in clause.args), env


def solve(literals: tuple[Literal, ...], env: Env, state: State) -> Iterator[Env]:
    """Every extension of `env` that makes all literals true; they stand in an order in which each is ready."""
    if not literals:
        yield env
        return
    for extended in _extend(literals[0], env, state):
        yield from solve(literals[1:], extended, state)


def _extend(literal: Literal, env: Env, state: State) -> Iterator[Env]:
    if isinstance(literal, Match):
        key = tuple(value(literal.args[i], env) for i in literal.key)
        for row in state.rows(literal.relation, literal.key, key):
            extended = dict(env)
            if all(_takes(literal.args[i], row[i], extended) for i in literal.rest):
                yield extended
    elif isinstance(literal, Absent):
        if not any(True for body in literal.bodies for _ in solve(body, env, state)):
            yield env
    elif isinstance(literal, Fold):
        extended = dict(env)
        result = _aggregate(literal, env, state)
        if result is not None and _takes(Var(literal.result), result, extended):
            yield extended
    elif isinstance(literal, Spread):
        for number in spread([value(arg, env) for arg in literal.args], literal.kind):
            extended = dict(env)
            if _takes(literal.target, number, extended):
                yield extended
    elif literal.binds:
        extended = dict(env)
        if _takes(literal.left, value(literal.right, env), extended):
            yield extended
    elif compare(literal.op, value(literal.left, env), value(literal.right, env)):
        yield env


def _takes(pattern: Expr, found: Value, env: Env) -> bool:
    """Whether `pattern` can have the value `found`; binds its free variables in `env`."""
    if isinstance(pattern, Var):
        return same(env.setdefault(pattern.name, found), found)
    if isinstance(pattern, Tuple):
        if found is None or len(found) != len(pattern.args):
            return False
        return all(_takes(*pair, env) for pair in zip(pattern.args, found, strict=True))
    return same(value(pattern, env), found)


def _aggregate(literal: Fold, env: Env, state: State) -> Value:
    outside = {name: env[name] for name in literal.shared}
    seen: dict[Row, Value] = {}
    for body in literal.bodies:
        for inner in solve(body, outside, state):
            # What an aggregate inside gives is no variable: the others determine it.
            names = own_names(name for name in inner if name not in outside and not name.startswith("fold:"))
            assignment = tuple((name, inner[name]) for name in names)
            seen[assignment] = None if literal.term is None else value(literal.term, inner)
    return fold(literal.kind, list(seen.values()), literal.operand)


def own_names(names: Iterable[str]) -> list[str]:
    """The variables written in an aggregate itself, without those that inlining brought into it.

    Pastes are numbered from the outside in, so what an aggregate has of its own bears its lowest number: none if it
    was written in the rule, the paste's if the whole aggregate came with an inlined rule.
    """
    paste = {name: int(name.split(":")[1]) if name.startswith(INLINED) else -1 for name in names}
    return sorted(name for name, number in paste.items() if number == min(paste.values()))
