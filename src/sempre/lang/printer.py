"""Nodes back to text: `parse(to_text(program)) == program`, with no more parentheses than that needs."""

from __future__ import annotations

import math

from sempre.lang.lexer import ESCAPES
from sempre.lang.operators import PRECEDENCE, PRIMARY, UNARY_PRECEDENCE, UNARY_TEXT
from sempre.lang.syntax import (
    Aggregate,
    AlgebraicType,
    Apply,
    Atom,
    Attribute,
    Branch,
    Cast,
    ChangeStatement,
    Comparison,
    Component,
    ComponentType,
    Conjunction,
    Counter,
    Directive,
    Disjunction,
    Float,
    Formula,
    FunctorDecl,
    Head,
    HeadAggregate,
    Instantiation,
    Item,
    Negation,
    Nil,
    Number,
    ParsedProgram,
    Pragma,
    Record,
    RecordType,
    RelationDecl,
    Rule,
    String,
    Subsumption,
    Subtype,
    Term,
    Truth,
    TypeDecl,
    Union,
    Unsigned,
    UserCall,
    Variable,
    Wildcard,
)

Node = ParsedProgram | Item | Head | Formula | Term | ChangeStatement | Attribute | ComponentType

_ESCAPED = str.maketrans({char: "\\" + code for code, char in ESCAPES.items() if code not in "'?"})

# A body of more than this many characters goes on lines of its own.
_WIDE = 100


def to_text(node: Node) -> str:
    """The text of any node."""
    if isinstance(node, ParsedProgram):
        return "".join(item_text(item) + "\n" for item in node.items)
    if isinstance(node, Atom | Comparison | Negation | Conjunction | Disjunction | Truth):
        return formula_text(node)
    if isinstance(node, Head):
        return head_text(node)
    if isinstance(node, ChangeStatement):
        return f"{'+' if node.insert else '-'}{formula_text(node.fact)}."
    if isinstance(node, Attribute):
        return attribute_text(node)
    if isinstance(node, ComponentType):
        return component_type_text(node)
    if isinstance(node, _ITEMS):
        return item_text(node)
    return term_text(node)


_ITEMS = (
    RelationDecl, TypeDecl, Directive, Pragma, FunctorDecl, Component, Instantiation, Rule, Subsumption,
)  # fmt: skip

# --------------------------------------------------------------------------------------------------- terms


def term_text(term: Term, around: int = 0) -> str:
    """A term, in parentheses when it binds less tightly than `around` asks."""
    text, precedence = _term(term)
    return f"({text})" if precedence < around else text


def _term(term: Term) -> tuple[str, int]:
    """The text of a term and how tightly it binds."""
    match term:
        case Variable(name):
            return name, PRIMARY
        case Wildcard():
            return "_", PRIMARY
        case Number(value):
            return str(value), PRIMARY if value >= 0 else UNARY_PRECEDENCE
        case Unsigned(value):
            return f"{value}u", PRIMARY
        case Float(value):
            return _float_text(value), PRIMARY if math.copysign(1, value) > 0 else UNARY_PRECEDENCE
        case String(value):
            return string_text(value), PRIMARY
        case Nil():
            return "nil", PRIMARY
        case Record(args):
            return f"[{_terms(args)}]", PRIMARY
        case Branch(name, args):
            return f"${name}({_terms(args)})" if args else f"${name}", PRIMARY
        case UserCall(name, args):
            return f"@{name}({_terms(args)})", PRIMARY
        case Cast(inner, type_name):
            return f"as({term_text(inner)}, {type_name})", PRIMARY
        case HeadAggregate(kind, inner):
            return f"{kind}({term_text(inner)})", PRIMARY
        case Counter():
            return "autoinc()", PRIMARY
        case Aggregate():
            # Inside an operator it needs parentheses: its term would take in what follows.
            return _aggregate_text(term), 0
        case Apply():
            return _apply_text(term)


def _terms(terms: tuple[Term, ...]) -> str:
    return ", ".join(term_text(term) for term in terms)


def _apply_text(term: Apply) -> tuple[str, int]:
    name, args = term.functor, term.args
    if name in PRECEDENCE and len(args) == 2:
        level = PRECEDENCE[name]
        left, right = (level + 1, level) if name == "^" else (level, level + 1)
        return f"{term_text(args[0], left)} {name} {term_text(args[1], right)}", level
    if name in UNARY_TEXT and len(args) == 1:
        # `-5` is a literal, so the negation of one keeps its parentheses.
        literal = name == "neg" and isinstance(args[0], Number | Float)
        operand = f"({term_text(args[0])})" if literal else term_text(args[0], UNARY_PRECEDENCE)
        return f"{UNARY_TEXT[name]}{operand}", UNARY_PRECEDENCE
    return f"{name}({_terms(args)})", PRIMARY


def _aggregate_text(term: Aggregate) -> str:
    target = ""
    if term.term is not None:
        inner = term_text(term.term)
        target = f" {inner}" if isinstance(term.term, Variable | Number | Unsigned | Float | String) else f" ({inner})"
    return f"{term.kind}{target} : {{ {formula_text(term.body)} }}"


def _float_text(value: float) -> str:
    if math.isinf(value):
        return "1e999" if value > 0 else "-1e999"
    return repr(value)


def string_text(value: str) -> str:
    """A string literal, quoted and escaped."""
    return f'"{value.translate(_ESCAPED)}"'


# ------------------------------------------------------------------------------------------------ formulas


def formula_text(formula: Formula, nested: bool = False) -> str:
    """A formula; `nested` puts `,` and `;` in parentheses."""
    match formula:
        case Atom():
            return _atom_text(formula)
        case Comparison(op, left, right):
            if op in ("match", "contains"):
                return f"{op}({term_text(left)}, {term_text(right)})"
            return f"{term_text(left)} {op} {term_text(right)}"
        case Negation(body):
            return "!" + formula_text(body, nested=True)
        case Truth(value):
            return "true" if value else "false"
        case Conjunction(parts):
            text = ", ".join(formula_text(part, nested=True) for part in parts)
        case Disjunction(parts):
            text = " ; ".join(formula_text(part, nested=isinstance(part, Disjunction)) for part in parts)
    return f"({text})" if nested else text


def _atom_text(atom: Atom) -> str:
    return f"{atom.relation}({', '.join(_argument_text(atom, index) for index in range(len(atom.args)))})"


def _argument_text(atom: Atom, index: int) -> str:
    term = atom.args[index]
    text = term_text(term)
    if index != atom.location:
        return text
    plain = isinstance(term, Variable | Wildcard | Number | Unsigned | Float | String | Record | Nil)
    return f"@{text}" if plain else f"@({text})"


# --------------------------------------------------------------------------------------------------- items


def item_text(item: Item) -> str:
    """An item, without a line break at its end."""
    match item:
        case Rule():
            return _rule_text(item)
        case Subsumption():
            head = f"{_atom_text(item.lesser)} <= {_atom_text(item.greater)}"
            return f"{head} :-{_body_text(item.body, len(head))}." + _plan_text(item.plan)
        case RelationDecl():
            return _relation_text(item)
        case TypeDecl():
            return _type_text(item)
        case Directive():
            options = ", ".join(f"{key}={string_text(value)}" for key, value in item.options)
            return f".{item.kind} {', '.join(item.relations)}" + (f"({options})" if options else "")
        case Pragma(key, value):
            return f".pragma {string_text(key)}" + (f" {string_text(value)}" if value else "")
        case FunctorDecl():
            return _functor_text(item)
        case Component():
            return _component_text(item)
        case Instantiation(name, type_):
            return f".init {name} = {component_type_text(type_)}"


def head_text(head: Head) -> str:
    return ("-" if head.deletes else "") + _atom_text(head.atom)


def _rule_text(rule: Rule) -> str:
    heads = ", ".join(head_text(head) for head in rule.heads)
    if rule.is_fact:
        return f"{heads}." + _plan_text(rule.plan)
    return f"{heads} :-{_body_text(rule.body, len(heads))}." + _plan_text(rule.plan)


def _body_text(body: Formula, before: int) -> str:
    """The body of a rule; a long conjunction gets a line for each part."""
    text = formula_text(body)
    if before + len(text) <= _WIDE:
        return " " + text
    parts = body.parts if isinstance(body, Conjunction) else ()
    return "\n    " + (",\n    ".join(formula_text(part, nested=True) for part in parts) or text)


def _plan_text(plan: tuple[tuple[int, tuple[int, ...]], ...]) -> str:
    if not plan:
        return ""
    orders = (f"{version}:({', '.join(map(str, positions))})" for version, positions in plan)
    return f"\n.plan {', '.join(orders)}"


def attribute_text(attribute: Attribute) -> str:
    if not attribute.name:
        return attribute.type_name
    return f"{'@' if attribute.located else ''}{attribute.name}: {attribute.type_name}"


def _attributes(attributes: tuple[Attribute, ...]) -> str:
    return ", ".join(attribute_text(attribute) for attribute in attributes)


def _relation_text(decl: RelationDecl) -> str:
    text = f".decl {decl.name}({_attributes(decl.attributes)})"
    text += "".join(f" {qualifier}" for qualifier in decl.qualifiers)
    if decl.choice:
        keys = (key[0] if len(key) == 1 else f"({', '.join(key)})" for key in decl.choice)
        text += f" choice-domain {', '.join(keys)}"
    return text


def _type_text(decl: TypeDecl) -> str:
    match decl.definition:
        case Subtype(base):
            return f".type {decl.name} <: {base}"
        case Union(members):
            return f".type {decl.name} = {' | '.join(members)}"
        case RecordType(fields):
            return f".type {decl.name} = [{_attributes(fields)}]"
        case AlgebraicType(branches):
            written = (f"{name} {{{_attributes(fields)}}}" for name, fields in branches)
            return f".type {decl.name} = {' | '.join(written)}"


def _functor_text(decl: FunctorDecl) -> str:
    stateful = " stateful" if decl.stateful else ""
    directive = "aggregate" if decl.aggregates else "functor"
    return f".{directive} {decl.name}({_attributes(decl.parameters)}): {decl.result}{stateful}"


def component_type_text(type_: ComponentType) -> str:
    return type_.name + (f"<{', '.join(type_.arguments)}>" if type_.arguments else "")


def _component_text(component: Component) -> str:
    bases = ", ".join(component_type_text(base) for base in component.bases)
    lines = [f".comp {component_type_text(component.type)}{' : ' + bases if bases else ''} {{"]
    lines += [f"    .override {name}" for name in component.overrides]
    for item in component.items:
        # Lines are not indented further: a line break inside an item is never inside a string.
        lines += [f"    {line}" for line in item_text(item).split("\n")]
    return "\n".join([*lines, "}"])
