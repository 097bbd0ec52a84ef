"""The bundled graph from end to end, nothing downloaded and nothing trained.

WordNet: 117,659 meanings of English words, linked by what they have to do with each other.
Each class is a topic.
"""

import torch

import fewnode

# Five classes no model has been taught, each named by three examples ...
EXAMPLES = {
    "food": ["bread.noun.01", "cheese.noun.01", "soup.noun.01"],
    "plant": ["oak.noun.02", "fern.noun.01", "tulip.noun.01"],
    "thing people make": ["chair.noun.01", "violin.noun.01", "bridge.noun.01"],
    "substance": ["granite.noun.01", "oxygen.noun.01", "salt.noun.01"],
    "way to move": ["walk.verb.01", "swim.verb.01", "jump.verb.01"],
}
# ... and some nodes to sort into them.
UNKNOWN = [
    "pizza.noun.01",
    "sushi.noun.01",
    "cactus.noun.01",
    "daisy.noun.01",
    "umbrella.noun.01",
    "bicycle.noun.01",
    "water.noun.01",
    "bronze.noun.01",
    "climb.verb.01",
    "crawl.verb.01",
]


def main() -> None:
    print("Loading the bundled graph ...", flush=True)
    graph, split = fewnode.load_dataset("wordnet")
    print(graph)

    # How good is it? 500 tasks of held-out classes: 5 classes each, 5 examples and 10 queries of every class.
    model = fewnode.fit("probe", graph, split, n_way=5, k_shot=5, seed=0)
    print("probe, training-free:", fewnode.evaluate(model, graph, split.novel, n_way=5, k_shot=5))

    # One task of our own, by name.
    assert graph.node_names is not None and graph.class_names is not None
    number = {name: i for i, name in enumerate(graph.node_names)}
    task = fewnode.Tasks(
        support=torch.tensor([[number[name] for names in EXAMPLES.values() for name in names]]),
        support_y=torch.tensor([[i for i, names in enumerate(EXAMPLES.values()) for _ in names]]),
        query=torch.tensor([[number[name] for name in UNKNOWN]]),
    )
    best = model(graph, task).argmax(-1)[0].tolist()
    print("\nFive new classes, three examples each:")
    for label, names in EXAMPLES.items():
        print(f"  {label:<18} {', '.join(name.split('.')[0] for name in names)}")
    print("\nSo these are (and what WordNet says):")
    for name, place in zip(UNKNOWN, best, strict=True):
        truth = graph.class_names[int(graph.y[number[name]])]
        print(f"  {name.split('.')[0]:<18} {list(EXAMPLES)[place]:<20} ({truth})")


if __name__ == "__main__":
    main()
