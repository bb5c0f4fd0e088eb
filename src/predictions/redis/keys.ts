/** Names of the Redis keys of a queue, whose values scripts.ts describes. */

/** Prefix of all keys, with the version of their layout. Servers with another layout use other keys. */
const PREFIX = "sconce:8:";

export class Keys {
  readonly deadlines: string;
  readonly due: string;
  readonly unused: string;
  readonly #base: string;
  readonly #name: string;

  /** @param repository repository of the model @param name name of the queue */
  constructor(repository: string, name: string) {
    this.#name = name;
    this.#base = `${PREFIX}{${repository}}:`;
    this.deadlines = `${this.#base}deadlines`;
    this.due = `${this.#base}due`;
    this.unused = `${this.#base}unused`;
  }

  /** Keys of a queue of the repository, by default this one. */
  work(name = this.#name): string {
    return `${this.#base}work:${name}`;
  }

  totals(name = this.#name): string {
    return `${this.#base}totals:${name}`;
  }

  workers(): string {
    return `${this.#base}workers:${this.#name}`;
  }

  prediction(id: string): string {
    return `${this.#base}p:${id}`;
  }

  events(id: string): string {
    return `${this.#base}e:${id}`;
  }

  mail(node: string): string {
    return `${this.#base}mail:${node}`;
  }
}
