"""A made-up Java program as the facts of its instructions, for `programs/java.dl`: names are long, as real ones are.

Packages have classes and interfaces, classes override methods of the classes above them, and methods have instructions
of every kind. Calls mostly stay in their package; a main method starts some of the packages, so that others are never
reached.

python benchmarks/java.py OUT [--packages N]
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

Row = tuple[object, ...]

PACKAGES = 264  # 2.5 million facts
CLASSES, METHODS, NAMES, FIELDS = 24, 8, 14, 3
OBJECT, STRING, EXCEPTION = "java.lang.Object", "java.lang.String", "java.lang.Exception"
STARTED = 0.62  # the share of packages that the main method starts
ABROAD = 0.01  # the share of calls that leave their package


class Source:
    """All facts, by relation."""

    def __init__(self, packages: int, seed: int = 7) -> None:
        self.rng = random.Random(seed)
        self.facts: dict[str, list[Row]] = defaultdict(list)
        self.packages = [Package(self, number) for number in range(packages)]
        for package in self.packages:
            package.declare()
        self._library()
        for package in self.packages:
            package.write()

    def add(self, relation: str, *row: object) -> None:
        self.facts["_" + relation].append(row)

    def _library(self) -> None:
        """The classes that all others rest on, and the main method."""
        for name in (OBJECT, STRING, EXCEPTION):
            self.add("ClassType", name)
        for name in ("java.lang.Cloneable", "java.io.Serializable"):
            self.add("InterfaceType", name)
        self.add("DirectSuperclass", STRING, OBJECT)
        self.add("DirectSuperclass", EXCEPTION, OBJECT)
        self.add("ClassType", "org.example.Main")
        self.add("DirectSuperclass", "org.example.Main", OBJECT)
        main = "<org.example.Main: void main(java.lang.String[])>"
        self.add(
            "Method", main, "main", "java.lang.String[]", "org.example.Main", "void", "void(java.lang.String[])", 1
        )
        self.add("MethodModifier", main, "static")
        self.add("MainMethod", main)
        for index, package in enumerate(self.packages):
            if self.rng.random() < STARTED or not index:
                self.add("StaticMethodInvocation", f"{main}/start/{index}", index, package.start, main)


class Package:
    """One package: its types and methods, and what is in the methods."""

    def __init__(self, source: Source, number: int) -> None:
        self.source, self.rng, self.add = source, source.rng, source.add
        self.name = f"org.example.component{number}.internal"
        self.classes = [f"{self.name}.{kind}Handler{n}" for n, kind in enumerate(self._kinds())]
        self.interfaces = [f"{self.name}.Listener{n}" for n in range(3)]
        self.exceptions = [f"{self.name}.Failure{n}" for n in range(3)]
        self.start = f"<{self.classes[0]}: void start()>"
        self.signatures = [(f"process{n}", self._parameters(n)) for n in range(NAMES)]
        self.methods: dict[str, tuple[str, str, tuple[str, ...]]] = {}
        self.fields: list[str] = []
        self.statics: list[str] = []

    def _kinds(self) -> Iterator[str]:
        return (self.rng.choice(("Request", "Session", "Document", "Cache", "Element")) for _ in range(CLASSES))

    def _parameters(self, number: int) -> tuple[str, ...]:
        return tuple(self.rng.choice(self.classes) for _ in range(number % 3))

    def declare(self) -> None:
        """Types, fields and the methods that classes have."""
        rng, add = self.rng, self.add
        for name in self.interfaces:
            add("InterfaceType", name)
        for name in self.exceptions:
            add("ClassType", name)
            add("DirectSuperclass", name, EXCEPTION)
        for index, name in enumerate(self.classes):
            add("ClassType", name)
            add("ArrayType", name + "[]")
            add("ComponentType", name + "[]", name)
            add("DirectSuperclass", name, self.classes[rng.randrange(index)] if index > 2 else OBJECT)
            if rng.random() < 0.3:
                add("DirectSuperinterface", name, rng.choice(self.interfaces))
            if rng.random() < 0.1:
                add("ClassModifier", name, "abstract")
            for number in range(FIELDS):
                field = f"<{name}: {OBJECT} attribute{number}>"
                add("Field", field, name, f"attribute{number}", OBJECT)
                if number:
                    self.fields.append(field)
                else:
                    add("FieldModifier", field, "static")
                    self.statics.append(field)
            self._declare(name, "<init>", (), OBJECT)
            for method, parameters in rng.sample(self.signatures, METHODS - 2 if index else METHODS - 3):
                self._declare(name, method, parameters, OBJECT)
            self._declare(name, "<clinit>", (), "void", static=True)
        self._declare(self.classes[0], "start", (), "void", static=True)

    def _declare(self, kind: str, name: str, parameters: tuple[str, ...], returns: str, static: bool = False) -> None:
        shown = ",".join(parameters)
        method = f"<{kind}: {returns} {name}({shown})>" if name != "start" else self.start
        self.methods[method] = (kind, name, parameters)
        self.add("Method", method, name, shown, kind, returns, f"{returns}({shown})", len(parameters))
        self.add("MethodModifier", method, "static" if static else "public")

    def write(self) -> None:
        """What is in the methods."""
        for method, (kind, name, parameters) in self.methods.items():
            Body(self, method, kind, name, parameters).write()


class Body:
    """The instructions of one method."""

    def __init__(self, package: Package, method: str, kind: str, name: str, parameters: tuple[str, ...]) -> None:
        self.package, self.rng, self.add = package, package.rng, package.add
        self.method, self.kind, self.name, self.parameters = method, kind, name, parameters
        self.index = 0
        self.types: dict[str, str] = {}

    def variable(self, name: str, kind: str) -> str:
        full = f"{self.method}/{name}"
        self.types[full] = kind
        self.add("VarType", full, kind)
        self.add("VarMethod", full, self.method)
        return full

    def next(self, what: str) -> tuple[str, int]:
        """A name and a number for the next instruction."""
        self.index += 1
        return f"{self.method}/{what}/{self.index}", self.index

    def write(self) -> None:
        rng, package = self.rng, self.package
        self.given = []
        if self.name not in ("start", "<clinit>"):
            this = self.variable("@this", self.kind)
            self.add("ThisVar", self.method, this)
            self.given.append(this)
        for number, kind in enumerate(self.parameters):
            parameter = self.variable(f"@parameter{number}", kind)
            self.add("FormalParam", number, self.method, parameter)
            self.given.append(parameter)
        size = rng.randrange(2, 6) if self.name not in ("<init>", "<clinit>") else 1
        self.locals = [self.variable(f"$stack{number}", rng.choice(package.classes)) for number in range(size)]
        self.objects = [self.variable(f"value{number}", OBJECT) for number in range(3)]
        for local in self.locals:
            self.allocate(local, self.types[local])
        for _ in range(2 * size):
            self.move()
        for _ in range(size):
            rng.choice((self.load, self.store, self.static, self.array, self.cast))()
        for _ in range(size if self.name != "start" else 3 * size):
            self.call()
        if rng.random() < 0.15:
            self.fail()
        self.finish()

    def any(self) -> str:
        return self.rng.choice(self.locals + self.objects + self.given)

    def base(self) -> str:
        return self.rng.choice(self.locals + self.given)

    def own(self) -> str:
        """Mostly what the method has made itself: else everything would point to everything."""
        return self.base() if self.rng.random() < 0.2 else self.rng.choice(self.locals)

    def allocate(self, to: str, kind: str) -> None:
        instruction, index = self.next("assign")
        heap = f"{self.method}/new {kind}/{index}"
        if self.rng.random() < 0.1:
            heap = f'"the value of {self.method} at {index}"'
            self.add("StringConstant", heap)
        else:
            self.add("NormalHeap", heap, kind)
        self.add("AssignHeapAllocation", instruction, index, heap, to, self.method, index * 3)
        if self.rng.random() < 0.7:
            instruction, index = self.next("invoke")
            self.add("SpecialMethodInvocation", instruction, index, f"<{kind}: {OBJECT} <init>()>", to, self.method)

    def move(self) -> None:
        instruction, index = self.next("assign")
        if self.rng.random() < 0.1:
            self.add("AssignNull", instruction, index, self.any(), self.method)
        else:
            self.add("AssignLocal", instruction, index, self.base(), self.rng.choice(self.objects), self.method)

    def load(self) -> None:
        instruction, index = self.next("read")
        field = self.rng.choice(self.package.fields)
        self.add(
            "LoadInstanceField", instruction, index, self.rng.choice(self.objects), self.base(), field, self.method
        )

    def store(self) -> None:
        instruction, index = self.next("write")
        field = self.rng.choice(self.package.fields)
        self.add("StoreInstanceField", instruction, index, self.own(), self.base(), field, self.method)

    def static(self) -> None:
        field = self.rng.choice(self.package.statics)
        if self.rng.random() < 0.5:
            self.add("StoreStaticField", *self.next("write"), self.own(), field, self.method)
        else:
            self.add("LoadStaticField", *self.next("read"), self.rng.choice(self.objects), field, self.method)

    def array(self) -> None:
        kind = self.types[self.rng.choice(self.locals)]
        name = self.variable(f"array{self.index}", kind + "[]")
        instruction, index = self.next("assign")
        heap = f"{self.method}/new {kind}[]/{index}"
        self.add("NormalHeap", heap, kind + "[]")
        self.add("AssignHeapAllocation", instruction, index, heap, name, self.method, index * 3)
        self.add("StoreArrayIndex", *self.next("write"), self.own(), name, self.method)
        self.add("LoadArrayIndex", *self.next("read"), self.rng.choice(self.objects), name, self.method)

    def cast(self) -> None:
        kind = self.rng.choice(self.package.classes)
        to = self.variable(f"cast{self.index}", kind)
        self.add("AssignCast", *self.next("assign"), self.rng.choice(self.objects), to, kind, self.method)

    def call(self) -> None:
        rng, package = self.rng, self.package
        if rng.random() < ABROAD:
            package = rng.choice(package.source.packages)
        name, parameters = rng.choice(package.signatures)
        base = self.base()
        target = f"<{self.types[base]}: {OBJECT} {name}({','.join(parameters)})>"
        if target not in package.methods:
            choices = [m for m, (_, n, _) in package.methods.items() if n == name]
            if not choices:
                return
            target = rng.choice(choices)
        instruction, index = self.next("invoke")
        self.add("VirtualMethodInvocation", instruction, index, target, base, self.method)
        for number in range(len(parameters)):
            self.add("ActualParam", number, instruction, self.own())
        if rng.random() < 0.7:
            self.add("AssignReturnValue", instruction, rng.choice(self.objects))

    def fail(self) -> None:
        kind = self.rng.choice(self.package.exceptions)
        failure = self.variable(f"failure{self.index}", kind)
        begin = self.index + 1
        self.allocate(failure, kind)
        self.add("Throw", *self.next("throw"), failure, self.method)
        if self.rng.random() < 0.5:
            caught = self.variable(f"caught{self.index}", kind)
            handler = f"{self.method}/catch {kind}/{self.index}"
            self.add("ExceptionHandler", handler, self.method, kind, caught, self.rng.randrange(begin), self.index + 1)

    def finish(self) -> None:
        value = self.rng.choice(self.objects if self.rng.random() < 0.2 else self.locals)
        self.add("Return", *self.next("return"), value, self.method)


def write(folder: Path, packages: int = PACKAGES) -> None:
    """Write the facts of a program of so many packages as `R.facts` into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for relation, rows in Source(packages).facts.items():
        lines = ("\t".join(map(str, row)) for row in rows)
        (folder / f"{relation}.facts").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--packages", type=int, default=PACKAGES)
    arguments = parser.parse_args()
    write(arguments.out, arguments.packages)
