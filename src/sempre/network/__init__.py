"""Network Datalog: a program with locations runs on many nodes, and settles in the state of a central evaluation.

localize.py         rules whose body lies in several places -> rules with a body in one place, plus messages
fragment.py         what can run on which algorithm, and why not
python_functors.py  the built-in functors on Python values
codegen.py          local rules -> Python functions over the tables of a node
node_tables.py      the tables and indexes of a node
node.py             messages, and what every node can do
proofs.py           the node that keeps one proof per fact (any program that runs at all)
psn.py              the nodes of the papers: counts, and derivation sets
supports.py         the node that knows all sets of base facts on which a fact rests
diagrams.py         such sets as decision diagrams
wire.py             messages as bytes
simulate.py         carries messages between nodes in memory, in any order
report.py           messages and bytes per node and per burst
plot.py             the same as a picture
"""
