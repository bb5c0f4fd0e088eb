/** A server that all tests of a file or a `describe` use. It starts before the first test, and stops after the last. */
import type { ServeConfig } from "../../src/server/config.ts";
import type { Client } from "./client.ts";
import { fixture } from "./fixture.ts";
import { storeWith, type TestServer, type TestStore } from "./server.ts";

export class SharedServer {
  readonly #store: TestStore;
  readonly #server: TestServer;

  /** Starts the server for `reference`. @param models are built into the store, as in `storeWith` */
  constructor(models: readonly string[], reference: string, config: Partial<ServeConfig> = {}) {
    this.#store = fixture(() => storeWith(...models));
    this.#server = fixture(() => this.#store.serve(reference, config));
  }

  get url(): URL {
    return this.#server.url;
  }

  get client(): Client {
    return this.#server.client;
  }

  /** Starts another server, for another model of the same store. */
  beside(reference: string, config: Partial<ServeConfig> = {}): Promise<TestServer> {
    return this.#store.serve(reference, config);
  }
}
