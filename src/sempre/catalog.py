"""Every code that sempre reports, in one table: what it means, the way out, and what brings it about.

`make errors` makes `docs/errors.md` of this table. Where a code is reported, message and hint name what they are about;
the table says the same of all cases. `docs/dev/errors.md` says how to add a code.
"""

from __future__ import annotations

from sempre.data import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """One code. All texts are Markdown; an example that is a program or a change script is code and nothing else."""

    code: str
    meaning: str
    """What is wrong: no sentence, and no period."""
    way_out: str
    """What to do: sentences that begin with a verb and end with a period."""
    example: str


@dataclass(frozen=True, slots=True)
class Section:
    """The codes of one subject, in their order, and what is to be said before them."""

    title: str
    entries: tuple[Entry, ...]
    about: str = ""


SYNTAX = (
    Entry(
        "E101",
        "the text does not follow the grammar here",
        "Write what the message says was expected.",
        "`.decl p(x: number) p(1`",
    ),
    Entry(
        "E102",
        "a character that no part of the language begins with",
        "Remove the character.",
        "`.decl p(x: number) p(1§).`",
    ),
    Entry(
        "E103", "a string that is not closed on its line", 'Close the string with `"`.', '`.decl p(x: symbol) p("a).`'
    ),
    Entry("E104", "a comment that is never closed", "Close the comment with `*/`.", "`/* from here on`"),
    Entry(
        "E105",
        "an unknown escape in a string",
        "Use one of the escapes in the hint.",
        '`.decl p(x: symbol) p("a\\qb").`',
    ),
    Entry("E106", "a malformed number", "Write 42, 42u, 0x2a, 0b101010, 4.2 or 4e2.", "`.decl p(x: number) p(12ab).`"),
    Entry("E107", "an unknown directive", "Use the directive in the hint.", "`.dcl p(x: number)`"),
    Entry(
        "E108",
        "an unknown qualifier of a relation",
        "Use one of the qualifiers in the hint.",
        "`.decl p(x: number) inlined`",
    ),
    Entry(
        "E109", "terms or formulas nested too deeply", "Split the rule.", "a term in more than 100 pairs of parentheses"
    ),
    Entry(
        "E110",
        "a body with too many alternatives once `;` is multiplied out",
        "Give some of the alternatives a relation of their own.",
        "13 conditions such as `(x = 1 ; x = 2)` in one body",
    ),
    Entry(
        "E111", "an atom with two locations", "Keep one `@`.", '`.decl link(@s: symbol, d: symbol) link(@"a", @"b").`'
    ),
    Entry(
        "E122",
        "a line of the preprocessor that does not begin a line, or stands in a change script or a question",
        "Write it on a line of its own.",
        "`.decl p(x: number) p(1). #define LIMIT 10`",
    ),
    Entry(
        "E128",
        "a head that deletes, without the semantics for it",
        'Add `.pragma "semantics" "active"`.',
        "`.decl p(x: number) p(1). -p(x) :- p(x).`",
    ),
    Entry(
        "E129",
        "lattices, which are not supported",
        "Keep the best value with an aggregate in the head.",
        "`.lattice Interval { Bottom -> b }`",
    ),
    Entry(
        "E130",
        "a semantics that does not exist",
        'Write `"stratified"` or `"active"` behind `.pragma "semantics"`.',
        '`.pragma "semantics" "actve"`',
    ),
    Entry(
        "E132",
        "a `.plan` that does not fit its rule: not each atom once, or a version that is not there",
        "Write the numbers in the hint.",
        "`.decl e(x: number) .input e .decl p(x: number) .output p p(x) :- e(x). .plan 0:(1, 2)`",
    ),
    Entry(
        "E140",
        "a component that is not declared",
        "Declare the component, or use the name in the hint.",
        "`.comp Graph { .decl edge(x: number, y: number) } .init g = Graf`",
    ),
    Entry(
        "E141",
        "a component with the wrong number of type arguments",
        "Give it as many as its declaration in the note has.",
        "`.comp Graph<N> { .decl edge(x: N, y: N) } .init g = Graph`",
    ),
    Entry(
        "E142",
        "a component declared twice",
        "Give one of them another name.",
        "`.comp G { .decl a(x: number) } .comp G { .decl b(x: number) }`",
    ),
    Entry(
        "E143",
        "two instances of one name",
        "Give one of them another name.",
        "`.comp G { .decl a(x: number) } .init g = G .init g = G`",
    ),
    Entry(
        "E144",
        "a component that inherits from itself",
        "Take one of the bases away.",
        "`.comp A : B { .decl a(x: number) } .comp B : A { .decl b(x: number) }`",
    ),
    Entry(
        "E145",
        "a component that makes instances of itself without end",
        "Make the instance outside of the component.",
        "`.comp T { .decl a(x: number) .init above = T } .init t = T`",
    ),
    Entry(
        "E146",
        "`.override` of a relation that no base declares, or not as `overridable`",
        "Add `overridable` to the declaration in the base, or use the name in the hint.",
        "`.comp A { .decl p(x: number) } .comp B : A { .override p p(1). }`",
    ),
    Entry(
        "E147",
        "`#include` of a file that is not there, that cannot be read or that is outside of `--root`",
        "Write the name as seen from the file that includes it, or name the folder with `-I`.",
        '`#include "missing.dl"`',
    ),
    Entry(
        "E148",
        "a macro with the wrong number of arguments, or with arguments that are never closed",
        "Give the macro as many arguments as it is defined with.",
        "a use `EDGE(1)` after `#define EDGE(x, y) edge(x, y).`",
    ),
    Entry("E149", "`#if`, `#else` and `#endif` that do not belong together", "Close every `#if` once.", "`#endif`"),
    Entry(
        "E150",
        "a condition of `#if` or `#elif` that cannot be computed",
        "Write integers, macros, `defined(X)` and the operators of C.",
        "`#if (1 +` and an `#endif`",
    ),
    Entry("E151", "`#error`, which the program itself reports", "Do what its text says.", "`#error needs 64 bits`"),
    Entry(
        "E152",
        "files that include each other without end",
        "Write `#pragma once` at the top of the file.",
        "a file with its own name behind `#include`",
    ),
    Entry(
        "E153",
        "a directive of the preprocessor that does not exist, or a macro that cannot be defined so",
        "Use one of the directives in the hint.",
        "`#defin LIMIT 10`",
    ),
    Entry(
        "E154",
        "macros that stand for too much text, or for each other too often",
        "Write some of them out.",
        "ten macros each of which is ten times the next",
    ),
    Entry(
        "E190",
        "a change script with changes behind the last `commit.`",
        "End the script with `commit.`.",
        '`+edge("a", "b").`',
    ),
    Entry("E191", "a change with something other than constants", "Write the fact out.", '`+edge("a", x). commit.`'),
)

NAMES = (
    Entry(
        "E201",
        "a variable that nothing binds",
        "Use the variable in a positive atom, or use the one in the hint.",
        "`.decl p(x: number) .output p p(x) :- x > 3.`",
    ),
    Entry(
        "E202",
        "a relation that is not declared",
        "Declare the relation, or use the name in the hint.",
        "`.decl edge(x: number) edge(x) :- edges(x). .output edge`",
    ),
    Entry(
        "E203",
        "an atom with the wrong number of arguments",
        "Give it as many as the declaration in the note has columns.",
        "`.decl edge(x: number, y: number) edge(1). .output edge`",
    ),
    Entry(
        "E204",
        "a relation declared twice",
        "Remove one of the declarations.",
        "`.decl p(x: number) .decl p(x: symbol) .output p`",
    ),
    Entry(
        "E205",
        "a variable bound inside an aggregate and used outside, where no row has the value",
        "Bind the variable outside with an atom.",
        "`.decl cost(i: symbol, p: number) .decl q(i: symbol) .output q q(i) :- _m = sum p : { cost(i, p) }.`",
    ),
    Entry(
        "E206", "two columns of one name", "Give each column its own name.", "`.decl p(x: number, x: number) .output p`"
    ),
    Entry(
        "E207",
        "`eqrel` on a relation that is not a pair of one type",
        "Declare two columns of one type.",
        "`.decl same(x: number, y: symbol) eqrel .output same`",
    ),
    Entry(
        "E208",
        "locations that disagree, or more than one in a declaration",
        "Write `@` where the declaration has it.",
        '`.decl link(@s: symbol, d: symbol) link("a", @"b"). .output link`',
    ),
    Entry(
        "E210",
        "an unknown functor",
        "Use the functor in the hint.",
        '`.decl p(x: number) .output p p(x) :- x = strln("a").`',
    ),
    Entry(
        "E211",
        "a functor with the wrong number of arguments",
        "Give it the number in the message.",
        '`.decl p(x: symbol) .output p p(substr("abc", 1)).`',
    ),
    Entry(
        "E212",
        "`_` where a value is needed",
        "Name a variable that is bound.",
        "`.decl p(x: number) .output p p(_) :- p(_).`",
    ),
    Entry(
        "E213",
        "a variable that only occurs in several negations or aggregates",
        "Bind the variable outside, or use different names.",
        "`.decl r(x: number) .decl p(x: number) .output p p(1) :- !r(y), !r(y + 1).`",
    ),
    Entry(
        "E214",
        "`demand` at a relation that cannot be derived as far as it is asked for",
        "Remove `demand`, or what the message names.",
        "`.decl r(x: number) .decl p(x: number) demand .output p p(x) :- r(x).`",
    ),
)

TYPES = (
    Entry(
        "E301",
        "values of different kinds where one kind is needed",
        "Convert the value, or write the literal as that kind: `1.0`.",
        '`.decl p(x: number) .output p p("a").`',
    ),
    Entry(
        "E302",
        "one variable of two types that have no value in common",
        "Use two variables.",
        "`.type A <: symbol .type B <: symbol .decl e(x: A, y: B) .decl p(x: A) .output p p(x) :- e(x, x).`",
    ),
    Entry(
        "E303",
        "a head that takes a narrower type than it is given",
        "Write `as(x, T)` if that is meant.",
        "`.type A <: symbol .decl e(x: symbol) .decl p(x: A) .output p p(x) :- e(x).`",
    ),
    Entry(
        "E304",
        "a record whose type cannot be told",
        "Write `as([...], T)`.",
        "`.decl p(x: number) .output p p(1) :- [1, 2] = [1, 2].`",
    ),
    Entry(
        "E305",
        "a record with the wrong number of fields",
        "Write the fields in the hint.",
        "`.type Pair = [a: number, b: number] .decl p(x: Pair) .output p p([1, 2, 3]).`",
    ),
    Entry(
        "E306",
        "a number that does not fit 64 bits",
        "Write one within the range in the hint.",
        "`.decl p(x: number) .output p p(9223372036854775808).`",
    ),
    Entry(
        "E307",
        "a list functor on a record that is no list",
        "Declare the list as an element and the rest.",
        "`.type pair = [x: symbol, y: symbol] .decl has(p: pair) .decl n(n: number) .output n n(f_size(p)) :- has(p).`",
    ),
    Entry(
        "E310",
        "a type that is not declared",
        "Declare the type, or use the name in the hint.",
        "`.decl p(x: Node) .output p`",
    ),
    Entry("E311", "a type declared twice", "Give one of them another name.", "`.type A <: symbol .type A <: number`"),
    Entry("E312", "a type defined by itself", "Refer back only in fields of records.", "`.type A <: B .type B = A`"),
    Entry(
        "E313",
        "a union of types that are stored differently",
        "Join types of one kind.",
        "`.type Mixed = number | symbol`",
    ),
    Entry(
        "E330",
        "a branch of an algebraic type that is declared twice",
        "Give one of them another name.",
        "`.type A = None {} .type B = None {}`",
    ),
    Entry(
        "E331",
        "a branch that no algebraic type has",
        "Use the branch in the hint, or declare it.",
        "`.type T = Leaf {} .decl p(t: T) .output p p($Leav).`",
    ),
    Entry(
        "E332",
        "a branch with too many or too few arguments",
        "Give it those of its declaration.",
        "`.type T = Leaf {v: number} .decl p(t: T) .output p p($Leaf(1, 2)).`",
    ),
    Entry(
        "E333",
        "a record, or `nil`, where a value of an algebraic type is wanted",
        "Write a branch of the type.",
        "`.type T = Leaf {} .decl p(t: T) .output p p(nil).`",
    ),
    Entry(
        "E334",
        "a branch with two fields of one name",
        "Give each field its own name.",
        "`.type T = Pair {x: number, x: number}`",
    ),
)

FUNCTORS_OF_USERS = (
    Entry(
        "E125",
        "a functor that is declared stateful",
        "Remove `stateful`: the value must depend on the arguments alone.",
        "`.functor next(): number stateful .decl p(x: number) .output p p(1).`",
    ),
    Entry(
        "E335",
        "a functor declared twice",
        "Give one of them another name.",
        "`.functor f(x: number): number .functor f(): number .decl p(x: number) .output p p(1).`",
    ),
    Entry(
        "E336",
        "a functor that takes or gives a record",
        "Give it the fields.",
        "`.type R = [a: number] .functor f(x: R): number .decl p(x: number) .output p p(1).`",
    ),
    Entry(
        "E337",
        "a functor that is not declared",
        "Declare it with `.functor`, or use the name in the hint.",
        "`.decl p(x: number) .output p p(@f(1)).`",
    ),
    Entry(
        "E338",
        "a functor with the wrong number of arguments",
        "Give it those of its declaration.",
        "`.functor f(x: number): number .decl p(x: number) .output p p(@f()).`",
    ),
    Entry(
        "E339",
        "a functor or an aggregate without a Python function",
        "Decorate one with `@sempre.functor` or `@sempre.aggregate` first, or name its file: `--functors FILE.py`.",
        "`.functor f(x: number): number`, in a process that has registered no `f`",
    ),
    Entry(
        "E340",
        "a file of Python functions that cannot be run",
        "Mend it; the message has the exception.",
        "`--functors missing.py`",
    ),
    Entry(
        "E341",
        "an aggregate of your own without exactly one parameter",
        "Give it one, for what it is taken of.",
        "`.aggregate middle(x: number, y: number): number`",
    ),
    Entry(
        "E342",
        "an aggregate that no `.aggregate` declares",
        "Declare it.",
        "`.decl q(x: number) q(1). .decl p(x: number) .output p p(n) :- n = @middle x : { q(x) }.`",
    ),
    Entry(
        "E343",
        "an aggregate that is called as a functor",
        "Write `@f x : { ... }`.",
        "`.aggregate middle(x: number): number .decl p(x: number) .output p p(@middle(1)).`",
    ),
)

STRATA = (
    Entry(
        "E124",
        "a subsumption between two relations",
        "Write both sides over one relation.",
        "`.decl a(x: number) .decl b(x: number) .output b b(x) :- a(x). a(x) <= b(y) :- x < y.`",
    ),
    Entry(
        "E126",
        "the counter `$` or `autoinc()` where rows cannot have numbers: in recursion, a negation or an aggregate",
        "Number the facts once they are complete, by a rule of their own.",
        "`.decl p(x: number, n: number) .output p p(1, 1). p(x, $) :- p(x, _).`",
    ),
    Entry(
        "E131",
        "a `.limitsize` without its one option",
        "Write `.limitsize p(n=100)`.",
        "`.decl p(x: number) .output p p(0). p(x + 1) :- p(x). .limitsize p`",
    ),
    Entry(
        "E160",
        "a `range` in a negation or an aggregate whose bounds depend on what the rule derives",
        "Give the numbers a relation of their own.",
        "`p(n) :- p(x), n = count : { y = range(0, x) }.`, with `p` declared",
    ),
    Entry(
        "E161",
        "something that active rules do not have: `range`, the counter, `choice-domain`, subsumption, `.limitsize`",
        "Leave it out, or the semantics.",
        '`.pragma "semantics" "active" .decl p(x: number) .output p p(x) :- x = range(1, 10).`',
    ),
    Entry(
        "E163",
        "a subsumption whose body reads a relation",
        "Compare the columns of the two facts.",
        "`.decl p(x: number) .output p p(1). p(x) <= p(y) :- x < y, p(y).`",
    ),
    Entry(
        "E164",
        "a `choice-domain` of something that is no column",
        "Use a column.",
        "`.decl p(x: number) choice-domain y .output p p(1).`",
    ),
    Entry(
        "E165",
        "a relation that should choose its rows in two ways, or in a way that does not go with its declaration",
        "Give each a relation of its own.",
        "`.decl p(x: number, y: number) eqrel choice-domain x .output p p(1, 2).`",
    ),
    Entry(
        "E166",
        "rows that stand for each other by a subsumption, and differ in a record",
        "Compare one more column, so that one of the two is the better one.",
        "`p(x, r) <= p(x, s) :- true.`, with records in the second column",
    ),
    Entry(
        "E401",
        "negation through a cycle; the cycle is shown",
        "Break the cycle: what is negated must be complete before.",
        "`.decl e(x: number) .decl p(x: number) .output p p(x) :- e(x), !p(x).`",
    ),
    Entry(
        "E402",
        "an aggregate through a cycle; the cycle is shown",
        "Break the cycle: what is aggregated must be complete before.",
        "`.decl p(x: number) .output p p(n) :- n = count : { p(_) }.`",
    ),
    Entry(
        "E403",
        "`;` in the body of an aggregate for which it has no meaning",
        "Use the same variables in each alternative of a `count`, or make a relation of the alternatives.",
        "`.decl p(x: number) .decl n(x: number) .output n n(c) :- c = count : { p(_) ; p(2) }.`",
    ),
    Entry(
        "E404",
        "recursion through inlined relations",
        "Remove `inline` from one of them.",
        "`.decl a(x: number) inline .decl p(x: number) .output p a(x) :- a(x). p(x) :- a(x).`",
    ),
    Entry(
        "E410",
        "rules of one relation that aggregate differently in the head",
        "Use one aggregate in one column.",
        "`.decl e(n: number) .decl b(n: number) .output b b(min(n)) :- e(n). b(max(n)) :- e(n).`",
    ),
    Entry(
        "E411",
        "a head with two aggregates, or one that deletes and aggregates",
        "Use a relation for each.",
        "`.decl e(n: number) .decl b(l: number, h: number) .output b b(min(n), max(n)) :- e(n).`",
    ),
    Entry(
        "E412",
        "`count` or `sum` in a head, used in recursion",
        "Compute it in a stratum of its own.",
        "`.decl e(x: number, y: number) .decl p(x: number, n: number) .output p p(y, sum(n)) :- p(x, n), e(x, y).`",
    ),
    Entry(
        "E413",
        "`min` or `max` in a head, used in recursion in a way that is not monotone",
        "Pass the value on only into the aggregate.",
        "`.decl e(x: number, y: number) .decl d(x: number, n: number) .output d d(y, min(0 - n)) :- d(x, n), e(x, y).`",
    ),
)

ACTIVE = (
    Entry(
        "E430",
        "an aggregate in the head of a relation whose rules run in cycles",
        "Aggregate in a body.",
        '`.pragma "semantics" "active" .decl e(n: number) .decl l(n: number) .output l '
        "l(min(n)) :- e(n). -e(n) :- l(n).`",
    ),
    Entry(
        "E540",
        "rules that repeat themselves; the message has the period and facts that flip",
        "Give one of the rules a condition that ends it.",
        "`-p(1) :- p(1). p(1) :- !p(1).`",
    ),
    Entry(
        "E541",
        "rules that have not come to an end after `cycles` cycles",
        "Look for a rule that makes new values for ever, or allow more with `cycles=` or `--cycles`.",
        "`p(x + 1) :- p(x).`",
    ),
    Entry(
        "E542",
        "a run of active rules that needs more than `memory`, or three quarters of the machine's",
        "Look for a rule that makes new values for ever, or allow more with `memory=` or `--memory`.",
        "`p(x + 1) :- p(x).` with `--memory 1M`",
    ),
)

NETWORKS = (
    Entry(
        "E420", "a relation without a location", "Write `@` before one column.", "`.decl free(x: symbol) .output free`"
    ),
    Entry(
        "E421",
        "a rule that cannot be localized: no node knows where to send its part",
        "Join the places by an atom that names both.",
        "`.decl a(@x: symbol) .decl b(@x: symbol, y: symbol) .output b b(@x, y) :- a(@x), a(@y).`",
    ),
    Entry(
        "E422",
        "a negation or an aggregate over several places",
        "Collect what it ranges over in one place first.",
        "`.decl a(@x: symbol) .decl b(@x: symbol) .output b b(@x) :- a(@x), !a(@_).`",
    ),
    Entry(
        "E423",
        "a rule that would send several aggregated values of its own recursion",
        "Join two of them in a rule of their own.",
        "`.decl l(@x: symbol, y: symbol) .decl t(@x: symbol) .decl b(@x: symbol, c: number) .output b "
        "b(@y, min(c + d)) :- b(@x, c), b(@x, d), l(@x, y), t(@y).`",
    ),
    Entry(
        "E424",
        "something that nodes do not support",
        "Follow the hint.",
        "`.decl same(@x: symbol, y: symbol) eqrel .output same`",
    ),
    Entry(
        "E425",
        "something that the chosen algorithm does not support",
        "Use `--algorithm proofs`.",
        "a negation with `--algorithm sets`",
    ),
    Entry(
        "E530",
        "a step of a recursion that improves an aggregated value, as a negative cost does",
        "Make costs 0 or more.",
        '`best(@d, min(c + k)) :- best(@s, c), link(@s, d, k).` and the fact `link("a", "b", -1)`',
    ),
    Entry(
        "E531",
        "a run that has not settled within `--limit` messages",
        "Raise the limit, or look for a recursion without end.",
        "`sempre network p.dl --limit 10`",
    ),
    Entry(
        "E532",
        "a trace that does not belong to the run",
        "Replay it on the program, facts and changes it was made of.",
        "`sempre network p.dl --replay` with a report about another program",
    ),
    Entry(
        "E533",
        "more at one node than the algorithm keeps: derivations, or conditions of facts",
        "Use `--algorithm proofs`.",
        "a dense graph with cycles, and `--algorithm sets`",
    ),
    Entry(
        "E534",
        "a picture or a trace that cannot be written or read",
        "Remove the reason in the message.",
        "a report in a folder that does not exist",
    ),
    Entry(
        "E535",
        "a value that is nested too deeply to be sent from one node to another",
        "Keep lists in facts shorter, or evaluate the program with `sempre run`.",
        "a list of a thousand elements in a fact that is sent on",
    ),
)

FILES = (
    Entry(
        "E501",
        "a file that does not exist",
        "Correct the name; the hint has names that are near.",
        "`.input edge`, and no `edge.facts` in the folder of facts",
    ),
    Entry(
        "E502",
        "a row or a table that has other columns than the relation",
        "Give the columns of the relation; the hint has the select.",
        "three values in a line of `edge.facts`, and two columns in `edge`",
    ),
    Entry("E503", "a value that is not of its column's type", "Correct the value.", "`two` in a column of numbers"),
    Entry(
        "E504",
        "a value that is out of the range of its type",
        "Write one within the range in the hint, or declare another type.",
        "`-1` in a column of type `unsigned`",
    ),
    Entry("E505", "bytes that are not UTF-8", "Convert the file to UTF-8.", "a file in Latin-1 with an `ü`"),
    Entry(
        "E506",
        "a file that cannot be read: a folder, no permission, damaged",
        "Remove the reason in the message.",
        "a folder that is called `edge.facts`",
    ),
    Entry(
        "E507",
        "text that is not a record of its type",
        "Write records as `[1, [2, nil]]`.",
        "`[1, 2` in a column of records",
    ),
    Entry("E508", "a null", "Remove the rows, or fill in a value.", "`[null, 1]` in a JSON file of facts"),
    Entry(
        "E509",
        "a column of a type that has no counterpart",
        "Cast the column; the hint has the cast.",
        "a Parquet file with a column of lists",
    ),
    Entry(
        "E510",
        "an operation without a result: overflow, division by zero, a text that is no number, a pattern that is none",
        "Correct the operands; the message has them, and the rule.",
        "`p(1 / x) :- e(x).` and the fact `e(0)`",
    ),
    Entry(
        "E511",
        "an option of a directive that cannot be honored",
        "Remove the option, or write it as in the hint.",
        '`.input edge(delimiter="")`',
    ),
    Entry(
        "E512",
        "an output that cannot be written",
        "Choose another place, such as a folder with `-D`.",
        "`sempre run p.dl -D /proc`",
    ),
    Entry(
        "E513",
        "a file in a change folder that is not one of changes",
        "Remove the file, or call it `R.insert.facts` or `R.delete.facts`.",
        "`notes.txt` in a folder of changes",
    ),
    Entry(
        "E514",
        "a change to a relation that is not declared",
        "Use one of the relations in the hint.",
        "`+edges(1, 2).` where the relation is `edge`",
    ),
    Entry(
        "E515",
        "a directive or a place that needs Spark, in a run without it",
        "Run with `--on spark`, or give the database a session.",
        "`.input edge(IO=spark)` with `--on local`",
    ),
    Entry(
        "E516",
        "a source that goes by position, and whose columns changed between epochs",
        "Select the columns as they were, or rename them as those of the relation.",
        "a DataFrame with the columns `a, b`, and in the next epoch `b, a`",
    ),
    Entry(
        "E519",
        "a program that reads or writes outside of `--root`",
        "Name a file below that folder.",
        '`.input edge(filename="../edge.facts")` with `--root .`',
    ),
    Entry(
        "E520",
        "a gzip file that unpacks to more than 100 times its size, and more than 256 MiB",
        "Set `SEMPRE_MOST_UNPACKED=8G` in the environment if that is meant.",
        "300 MiB of zeros in a `.gz`",
    ),
    Entry(
        "W501",
        "a symbol with the delimiter or a line break, which was written as it is, as Soufflé does",
        "Write the output with `rfc4180=true` if it is to be read back.",
        "a symbol with a tab in a `.csv` that has tabs",
    ),
)

STREAMS = (
    Entry(
        "E517",
        "an operation in a stream that is none",
        "Use one of the operations in the hint.",
        "`upsert` in the column `operation`",
    ),
    Entry(
        "E518",
        "a stream that lacks a column, or is no stream",
        "Rename the columns of the stream, or name those that it has.",
        "`db.maintain(stream)` where the stream has no column `relation`",
    ),
    Entry(
        "E650",
        "a stream whose checkpoint is ahead of the database",
        "Use a new checkpoint, or keep batches with `keep_batches=True`.",
        "the checkpoint of another database",
    ),
    Entry(
        "E651",
        "a change feed that another history has written",
        "Give the stream a feed of its own, or remove the old one.",
        "the folder of a feed that another stream has written",
    ),
    Entry(
        "E720",
        "a stream that needs a checkpoint, and has none",
        "Name a folder that Spark can reach with `checkpoint=`.",
        "`db.maintain(stream)` on Spark Connect",
    ),
    Entry(
        "E721",
        "a stream that Spark has ended",
        "Remove the reason in the message, and start the stream again.",
        "a source of the stream that was deleted while it ran",
    ),
)

SOURCES = (
    Entry(
        "E660",
        "a relation that follows a source, and has facts that are not from there",
        "Use `--overwrite`, or give what you apply by hand a relation of its own.",
        "`sempre apply` to a relation with `.input`, and `sempre refresh` after it",
    ),
    Entry(
        "E661",
        "a source that cannot be followed: nothing tells its versions apart",
        "Use files, Delta Lake or Iceberg; apply other changes by `sempre apply`.",
        "`sempre refresh` where a relation has `.input r(IO=stdin)`",
    ),
    Entry(
        "E662",
        "a file that is written while it is read",
        "Let the writer finish; a writer should rename a whole file into place.",
        "`R.facts` that another process appends to",
    ),
    Entry(
        "E663",
        "a table format or a command whose package is not installed",
        "Install the extra that the hint names.",
        "`.input r(IO=delta)` where `deltalake` is missing",
    ),
    Entry(
        "E664",
        "a table that removes rows which it never had",
        "Use `--overwrite`, which reads all of it.",
        "a table that was replaced by an older copy under its own name",
    ),
    Entry(
        "E665",
        "an epoch that would have to evaluate something anew, where only maintaining is wanted",
        "Leave out `--fail-on-recompute`.",
        "a refresh after which half of a table is different",
    ),
    Entry(
        "E666",
        "a table of changes that shows an epoch which the store has no more",
        "Keep epochs that are not published yet, or remove the table.",
        "`sempre vacuum` between an epoch and its publication",
    ),
    Entry(
        "E667",
        "a source, or a batch of a stream, with several rows for one key",
        "Name columns in `key=` or `keys=` by which each row is the only one, or `order=`.",
        '`.input price(IO=jdbc, ..., follow="updated_at", key="item")` where an item has two prices',
    ),
)

STATES = (
    Entry("E601", "a store that is not there", "Make one with `sempre init`.", "`sempre apply nowhere changes`"),
    Entry(
        "E602",
        "a file of a store that is damaged or missing; it is named",
        "Restore the file from a backup, or make the store again.",
        "a file of the store that was deleted by hand",
    ),
    Entry(
        "E603",
        "a store that another process, or another database of this one, writes",
        "Close that one first.",
        "two `sempre apply` at once",
    ),
    Entry(
        "E604",
        "a store that was written with another program: one with another digest; what differs is listed",
        "Use `sempre migrate`, or open the store with its own program.",
        "a rule that was added since `sempre init`",
    ),
    Entry(
        "E605",
        "a store with a format of another version; both are named",
        "Use the version that wrote it, or a later one.",
        "a store of a later version",
    ),
    Entry(
        "E606",
        "a file of a store that cannot be written or read",
        "Make room, or repair what is wrong there, and apply again.",
        "a disk that is full",
    ),
    Entry(
        "E607",
        "an epoch that is not in the store: it was vacuumed, or never was",
        "Name one of the epochs in the hint.",
        "`Database.open(store, epoch=99)`",
    ),
    Entry(
        "E608",
        "a place where no store can be: nothing here reaches it, or it has no puts that fail where the name exists",
        "Install what the message names, use a directory, or `--on spark` where Spark's Java knows the place.",
        "`sempre init viewfs://lake/store p.dl`",
    ),
    Entry(
        "E609",
        "a store that somebody has written, or vacuumed, since it was opened",
        "Open the store again.",
        "a database that was open while `sempre apply` ran",
    ),
    Entry(
        "E610",
        "a past epoch, which cannot be changed",
        "Open the store without naming an epoch.",
        "`Database.open(store, epoch=0).apply(...)`",
    ),
    Entry(
        "E611",
        "`sempre init` on what is a store already",
        "Remove it, or give another directory.",
        "`sempre init` twice",
    ),
    Entry(
        "E612",
        "a directory with other things in it",
        "Give one that is empty or not there yet.",
        "`sempre init` on a folder with a file in it",
    ),
    Entry(
        "E613",
        "a question to a past epoch of a relation on demand that nobody had asked then",
        "Ask the current epoch.",
        "`sempre query STORE 'reach(\"a\", X)' --epoch 0` where `reach` is on demand",
    ),
    Entry(
        "E614",
        "a question that is dropped, and that nobody asked",
        "Drop a question that the hint names.",
        "`sempre query STORE 'reach(\"a\", X)' --drop` for the second time",
    ),
)

EXPLANATIONS = (
    Entry(
        "E640",
        "a question for an explanation that is no fact, since it has variables",
        "Explain one of the facts that `sempre query` gives.",
        "`sempre explain STORE 'reach(\"a\", X)'`",
    ),
    Entry(
        "E641",
        "an explanation of a fact that does not hold, or `--not` of one that does",
        "Ask why it does not hold: `--not`, or `absent=True`.",
        '`sempre explain STORE \'reach("c", "a")\'` where `reach` has no such row',
    ),
    Entry(
        "E642",
        "a trial that cannot be committed: it has ended, or another epoch came first",
        "Ask again what the change would do, or apply it.",
        "`trial.commit()` after `db.apply(...)`",
    ),
    Entry(
        "E643",
        "causes in epochs that are not there, or not any more",
        "Give the earlier epoch first; ask a change set before the next epoch.",
        "`sempre explain STORE FACT --between 7 3`",
    ),
)

MODULES = (
    Entry(
        "E615",
        "a module for a rule or a relation's rules that the program does not have",
        "Name a rule as `sempre check -v` prints it, or a relation that has rules.",
        '`modules="tc:pth"`',
    ),
    Entry(
        "E616",
        "two modules for one rule, or for one relation",
        "Let one of them take all rules of the relation.",
        "two modules whose `rules` are `path`",
    ),
    Entry(
        "E617",
        "a rule that the module cannot take",
        "Leave the rule to sempre, or to another kind of module.",
        "a `RuleModule` for a rule with a negation",
    ),
    Entry(
        "E618",
        "a module that answered what it must not",
        "Correct the module: its contract is in [modules.md](modules.md).",
        "`holds` that gives a list of another length",
    ),
)

PLACES = (
    Entry(
        "E701",
        "no memory is left",
        "Give the run less, or use a machine that has more.",
        "a product of two large relations",
    ),
    Entry(
        "E702",
        "`pyspark`, which is not installed",
        "Install it with `pip install 'sempre[spark]'`, or use `--on local`.",
        "`sempre run p.dl` without the extra `spark`",
    ),
    Entry(
        "E703",
        "no Java that Spark can run on",
        "Install one and set `JAVA_HOME`, or use `--on local`.",
        "`JAVA_HOME` with Java 11",
    ),
    Entry(
        "E704",
        "a Spark session that did not start; the detail has what Spark said and where its log is",
        "Check `--master`, `--remote` and `--conf`.",
        "`--remote sc://nowhere`",
    ),
    Entry(
        "E705",
        "a Spark session that went away",
        "Make a new session, and open the database with it.",
        "`spark.stop()` before `db.apply()`",
    ),
    Entry(
        "E706",
        "a Spark job that failed; the database is as it was before",
        "Remove the reason in the message; Spark's log has more.",
        "an executor without room on its disk",
    ),
    Entry(
        "E707",
        "files of Spark's, or a place for scratch, that the driver cannot see",
        "Set `SEMPRE_SCRATCH` to a folder that the driver and all executors share.",
        "executors on other machines, and `SEMPRE_SCRATCH=/tmp`",
    ),
    Entry(
        "E722",
        "tasks that cannot be given this version of the package",
        "Install the same version where Spark runs Python, or none.",
        "executors with an older version installed",
    ),
    Entry(
        "E740",
        "workers that are used after they were closed",
        "Open the database again.",
        "a relation that is read after `db.close()`, through a change set",
    ),
    Entry(
        "E741",
        "a worker that was lost, and again when the epoch was tried once more: it did not happen",
        "Apply it again when the session is well; the last epoch can be read. What workers had of older ones is gone.",
        "executors that are removed one after the other",
    ),
    Entry(
        "E742",
        "a session whose executors come and go, and workers",
        "Use place `cluster`, or a session with a fixed number of executors.",
        '`spark.dynamicAllocation.enabled=true` and `place="workers"`',
    ),
    Entry(
        "E743",
        "a session that demands encryption, and workers, which have none",
        "Use place `cluster`.",
        '`spark.authenticate=true` and `place="workers"`',
    ),
    Entry(
        "E744",
        "more workers than the session runs tasks at once, or nobody knows how many it runs",
        "Use fewer workers, or a larger session; give `workers` where the session does not say.",
        "`workers=3` on `local[2]`",
    ),
)

GENERAL = (
    Entry(
        "E100",
        "a program that cannot be read",
        "Give a file of UTF-8 text that can be read.",
        "`sempre check` with a folder, or with a file in Latin-1",
    ),
    Entry(
        "E500",
        "facts or changes, given in Python, that do not fit their relation; or a relation that there is not",
        "Correct what the message names.",
        '`db.apply(insert={"edge": [(1, None)]})`',
    ),
    Entry(
        "E600",
        "a call at the wrong time, or an option that does not fit",
        "Follow the hint.",
        "`db.apply(...)` after `db.close()`",
    ),
    Entry("E700", "a place where nothing can run", "Use one of the places in the hint.", '`place="moon"`'),
    Entry("E900", "a defect of sempre itself", "Report it, with what `SEMPRE_DEBUG=1` shows.", "none is known"),
)

WARNINGS = (
    Entry("W201", "a relation that is never used", "Write it out or remove it.", "`.decl old(x: number)`"),
    Entry(
        "W202",
        "a variable that occurs once",
        "Write `_` if that is meant.",
        "`.decl e(x: number, y: number) .decl n(x: number) .output n n(x) :- e(x, y).`",
    ),
    Entry(
        "W203",
        "a `materialize` or `watch` line of an NDlog program",
        "Leave it: it has no effect.",
        "`materialize(link, infinity, infinity, keys(1, 2)).`",
    ),
    Entry(
        "W204",
        "a pragma that has no effect",
        "Remove it; `semantics` is the one that has an effect.",
        '`.pragma "provenance" "explain"`',
    ),
    Entry(
        "W205",
        "a relation that is read, and has no rule, no fact and no input, in a program that has facts or inputs",
        "Add `.input`, or give it facts by changes.",
        "`.decl e(x: number) .input e .decl n(x: number) .decl p(x: number) .output p p(x) :- n(x), e(x).`",
    ),
    Entry(
        "W206",
        "`_` in a `count`, `sum` or `mean` whose body is more than one plain atom: each of its values counts, "
        "other than in Soufflé",
        "Write `_x`, which counts in both, or read a relation without that column.",
        "`.decl v(w: symbol, r: symbol) .input v .decl n(n: number) .output n n(count : { v(_, r), v(r, r) }).`",
    ),
    Entry(
        "W210",
        "a word of an early version of Soufflé: `.number_type`, `.symbol_type`, a type without a base, a qualifier "
        "`input`, `output` or `printsize`",
        "Write what the hint says; it means the same.",
        "`.number_type Id .decl p(x: Id) .output p p(1).`",
    ),
    Entry(
        "W211",
        "the same `.input` or `.output` twice",
        "Remove one, or give it another file.",
        "`.decl p(x: number) p(1). .output p .output p`",
    ),
    Entry(
        "W212",
        "a subtype of a record, which Soufflé does not have",
        "Write it as a union of one type: `.type S = R`.",
        "`.type R = [a: number] .type S <: R .decl p(x: S) .output p p([1]).`",
    ),
)

SECTIONS = (
    Section("Syntax, and what is not supported", SYNTAX),
    Section("Names, binding and safety", NAMES),
    Section("Types", TYPES),
    Section("Functors in Python", FUNCTORS_OF_USERS, "[language.md](language.md#functors-in-python) explains them."),
    Section("Strata and aggregates", STRATA),
    Section(
        "Active rules",
        ACTIVE,
        "[active.md](active.md) explains them. The last three come from a run, not from the program's text.",
    ),
    Section(
        "Networks",
        NETWORKS,
        "What `sempre network` and `sempre check -v` say about programs with locations; [network.md](network.md) "
        "explains them.",
    ),
    Section(
        "Files, tables and changes",
        FILES,
        "[spark.md](spark.md) has a list of what else can be wrong with sources. At most 20 errors of a file are shown "
        "in full; the last one says how many more there are.",
    ),
    Section("Streams", STREAMS, "[streams.md](streams.md) explains them."),
    Section("Stores", STATES, "[store.md](store.md) explains them."),
    Section("Explanations", EXPLANATIONS, "[explain.md](explain.md) explains them."),
    Section("Sources that are followed", SOURCES, "[refresh.md](refresh.md) explains them."),
    Section("Modules", MODULES, "What is wrong with `modules=`; [modules.md](modules.md) explains them."),
    Section("Places", PLACES, "Where work runs: this process, Spark, Java."),
    Section("What has no code of its own", GENERAL),
    Section("Warnings", WARNINGS),
)


def page() -> str:
    """The page of all errors, as Markdown."""
    lines = [
        "<!-- Made of src/sempre/catalog.py by `make errors`: edit that file, not this one. -->",
        "",
        "# Errors and warnings",
        "",
        "Every message has a code that stays the same between versions. Errors of a program are reported all at once,",
        "each with its place; warnings never stop a program. The example is a small thing that brings the error about.",
        "`tests/errors` has a program for each code of the language, with the exact text.",
    ]
    for section in SECTIONS:
        lines += ["", f"## {section.title}", ""]
        lines += [section.about, ""] if section.about else []
        lines += ["| code | meaning | way out | example |", "|---|---|---|---|"]
        lines += [f"| {' | '.join(_cells(entry))} |" for entry in section.entries]
    return "\n".join(lines) + "\n"


def _cells(entry: Entry) -> list[str]:
    return [cell.replace("|", r"\|") for cell in (entry.code, entry.meaning, entry.way_out, entry.example)]


if __name__ == "__main__":
    print(page(), end="")
