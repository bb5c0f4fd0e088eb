/** Calls the observers of a prediction at its changes. */

export interface Observer {
  /** Called at each change of the prediction, including the end. */
  changed(): void;
}

/** Base class of a prediction with observers. */
export abstract class Observed {
  #observers: readonly Observer[] | undefined;

  abstract readonly isOver: boolean;

  watch(observer: Observer): void {
    this.#observers = this.#observers === undefined ? [observer] : [...this.#observers, observer];
  }

  unwatch(observer: Observer): void {
    this.#observers = this.#observers?.filter((other) => other !== observer);
  }

  protected changed(): void {
    if (this.#observers !== undefined) for (const observer of this.#observers) observer.changed();
  }
}
