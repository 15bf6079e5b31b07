"""Values of one worker: what the driver has numbered, as far as it was needed here.

The driver numbers all values, so the codes of symbols and records are the same for all workers. A worker asks it for
the code of a value that it does not know yet, and for the value of a code. Each text crosses a link once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from sempre.kernel.values import Records, Symbols, Values
from sempre.workers.framing import Column, Frame

Ask = Callable[[dict[str, Any], list[Column]], Frame]


class SharedSymbols(Symbols):
    """Symbols as the driver numbers them."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask
        self._by_code: dict[int, str] = {}

    def _learn(self, code: int, text: str) -> None:
        self._by_code[code] = text
        self._codes[text] = code

    def code(self, text: str) -> int:
        found = self._codes.get(text)
        if found is None:
            self.encode((text,))
            found = self._codes[text]
        return found

    def encode(self, texts: Iterable[str]) -> Column:
        wanted = list(texts)
        unknown = [text for text in dict.fromkeys(wanted) if text not in self._codes]
        if unknown:
            reply = self._ask({"codes": unknown}, [])
            for text, code in zip(unknown, reply.columns[0].tolist(), strict=True):
                self._learn(code, text)
        return np.fromiter((self._codes[text] for text in wanted), np.int64, len(wanted))

    def decode(self, codes: Column) -> list[str]:
        wanted = codes.tolist()
        unknown = [code for code in dict.fromkeys(wanted) if code not in self._by_code]
        if unknown:
            reply = self._ask({"texts": True}, [np.array(unknown, np.int64)])
            for code, text in zip(unknown, reply.header["reply"], strict=True):
                self._learn(code, text)
        return [self._by_code[code] for code in wanted]

    def text(self, code: int) -> str:
        return self.decode(np.array([code]))[0]

    def __len__(self) -> int:
        raise NotImplementedError("only the driver knows all symbols")

    def texts(self) -> Sequence[str]:
        raise NotImplementedError("only the driver knows all symbols")

    def forget_codes(self) -> None:
        """The driver has taken codes back."""
        self._codes.clear()
        self._by_code.clear()


class SharedRecords(Records):
    """Records of one arity as the driver numbers them."""

    def __init__(self, arity: int, ask: Ask) -> None:
        super().__init__(arity)
        self._ask = ask

    def encode(self, columns: Sequence[Column], size: int) -> Column:
        if not size:
            return np.empty(0, np.int64)
        return self._ask({"records": self._arity}, [*columns, np.full(1, size)]).columns[0]

    def field(self, codes: Column, at: int) -> Column:
        if not codes.size:
            return np.empty(0, np.int64)
        return self._ask({"field": self._arity, "at": at}, [codes]).columns[0]


class SharedValues(Values):
    """All tables of one worker."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask
        self.symbols: SharedSymbols = SharedSymbols(ask)

    def records(self, arity: int) -> Records:
        found = self._records.get(arity)
        if found is None:
            found = self._records[arity] = SharedRecords(arity, self._ask)
        return found


def reply(values: Values, question: dict[str, Any], columns: list[Column]) -> Frame:
    """What the driver says to a question of a worker."""
    if "codes" in question:
        return Frame({"reply": None}, [values.symbols.encode(question["codes"])])
    if "texts" in question:
        return Frame({"reply": values.symbols.decode(columns[0])})
    if "records" in question:
        table = values.records(int(question["records"]))
        return Frame({"reply": None}, [table.encode(columns[:-1], int(columns[-1][0]))])
    return Frame({"reply": None}, [values.records(int(question["field"])).field(columns[0], int(question["at"]))])
