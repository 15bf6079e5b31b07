"""Why facts hold, why they do not, and why they changed; plans as text.

plan_text      plans, modules and decisions as text, for `sempre check -v`
inquiries      rules that are made for a question, and what a state answers
prover         proofs of least height, level by level backward from the facts in question
narrate        a proof as a document: plain values, rules, places
document       the document that everything is told by, as JSON
checker        replays a document; knows rules and values, and nothing of the engine
"""
