"""The service behind the addresses: the classifier in a folder, adapted to the classes in its journal."""

import copy
import threading
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..classifier.classifier import FewShotClassifier, Growth
from ..classifier.commands import Say, load_attached
from ..errors import InputError
from ..files import NAME, PathLike, sha256
from ..labelling.journal import JOURNAL, Journal
from ..labelling.session import LabelSession, grow_folder


@dataclass(frozen=True)
class Served:
    """The state that answers requests; it is replaced and never changed.

    ``model`` names the version of the folder, ``mark`` the state of the journal.
    """

    session: LabelSession
    model: str
    mark: tuple[int, int] | None

    @property
    def classifier(self) -> FewShotClassifier:
        if self.session.found is None:
            raise InputError("nothing can be predicted yet: the graph has no label; add two classes at /v1/classes")
        return self.session.classifier


class Service:
    """The model in ``folder`` and the classes that were added to it.

    Other processes may serve the same folder, label in it, or replace it: ``current`` follows the journal, ``watch``
    the model. ``say`` is called with a line about each event.
    """

    def __init__(self, folder: PathLike, say: Say = lambda _: None) -> None:
        self.folder, self.say = Path(folder), say
        self.served: Served | None = None
        self.error: Exception | None = None
        self._lock, self._growing, self._loading = threading.Lock(), threading.Lock(), threading.Lock()

    def load(self) -> bool:
        """Load the model in the folder, unless it is already served. Until it is loaded, the previous model answers."""
        with self._loading:
            model = self._model()
            if self.served is not None and self.served.model == model:
                return False
            classifier = load_attached(self.folder, say=self.say)
            assert classifier.graph is not None
            if not classifier.graph.space.on_disk and bool((classifier.graph.y >= 0).any()):
                classifier.open_set_model(inductive=True)  # else the first request would wait for it
            with self._lock:
                self.served = self._serve(classifier, model)
        for note in self.served.session.notes:
            self.say(f"note: {note}")
        # What encodes the attributes of new nodes takes a second or two to import; known nodes are answered meanwhile.
        import sklearn.feature_extraction.text  # noqa: F401

        return True

    def watch(self, stop: threading.Event, seconds: float = 1.0) -> None:
        """Load the model whenever the folder holds another one. A model that cannot be loaded is ignored."""
        failed = None
        while not stop.is_set():
            there = self._model()
            try:
                if there != failed and self.load():
                    self.say(f"Serving model {there}")
                    self.error = failed = None
            except Exception as error:  # whatever is wrong with the new model, the old one is served
                self.error, failed = error, there
                if self.served is None:
                    return
                self.say(f"note: the new model is not served ({error}); the one before still is")
            stop.wait(seconds)

    def current(self) -> Served:
        """The model with all classes that are now in the journal."""
        if (served := self.served) is None:
            raise NotReady("the model is being loaded")
        if served.mark != self._mark():
            with self._lock:
                served = self.served or served  # another may be served meanwhile
                if served.mark != self._mark():
                    served = self.served = self._serve(served.session.classifier, served.model)
        return served

    def change(self, *steps: dict[str, Any]) -> Served:
        """Do labelling steps; they are in the journal when this returns."""
        with self._lock:
            if self.served is None:
                raise NotReady("the model is being loaded")
            session = self._session(self.served.session.classifier, wait=5.0)
            with closing(session.journal):
                session.do(*steps)
                self.served = Served(session, self.served.model, self._mark())
            return self.served

    def add(self, name: str, examples: list[str], description: str = "") -> Served:
        """Define a class by examples, a description or both, or add examples to an existing class."""
        session = self.current().session
        if description:
            session.classifier.encode_texts([description])  # refuses before anything is kept
        there = name in (*session.labels.classes, *session.labels.known, session.labels.other)
        steps: list[dict[str, Any]] = [{"do": "label", "nodes": examples, "class": name}] if examples else []
        steps += [] if examples or there else [{"do": "class", "name": name}]
        steps += [{"do": "describe", "name": name, "text": description}] if description else []
        return self.change(*steps)

    def grow(self, labels: Mapping[str, list[str]]) -> Growth:
        """Learn ``labels``, and all that were given before, permanently: classes with enough labels become known.

        The labels are in the journal before the work begins. When this returns, the new model is served.
        """
        if not self._growing.acquire(blocking=False):
            raise InputError("the model is growing already; ask again when it has")
        try:
            given = self.current().session.labels.marks
            new = {name: [node for node in nodes if given.get(node) != name] for name, nodes in labels.items()}
            step: dict[str, Any] = {"do": "label", "settle": True}
            self.change(*({**step, "nodes": nodes, "class": name} for name, nodes in new.items() if nodes))
            found = grow_folder(self.folder, say=self.say)
            self.load()
            return found
        finally:
            self._growing.release()

    def _serve(self, classifier: FewShotClassifier, model: str) -> Served:
        mark = self._mark()  # before the journal is read: what is written meanwhile is read the next time
        return Served(self._session(classifier), model, mark)

    def _session(self, classifier: FewShotClassifier, **opening: Any) -> LabelSession:
        """The classes of the journal, which is only read unless it is to be waited for."""
        assert classifier.graph is not None
        journal = Journal(self.folder, classifier.graph.fingerprint, read_only=not opening, **opening)
        return LabelSession(copy.copy(classifier), journal)

    def _model(self) -> str:
        file = self.folder / NAME
        return sha256(file)[:12] if file.exists() else ""

    def _mark(self) -> tuple[int, int] | None:
        with suppress(FileNotFoundError):
            found = (self.folder / JOURNAL).stat()
            return found.st_ino, found.st_size
        return None


class NotReady(InputError):
    """No model is loaded yet."""

    status = 503
