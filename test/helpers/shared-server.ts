/** A server that all tests of a file or a `describe` use. It starts before the first test, and stops after the last. */
import { afterAll, beforeAll } from "bun:test";
import type { ServeConfig } from "../../src/server/config.ts";
import type { Client } from "./client.ts";
import { storeWith, type TestServer, type TestStore } from "./server.ts";

export class SharedServer {
  #store: TestStore | undefined;
  #server: TestServer | undefined;

  /** Starts the server for `reference`. @param models are built into the store, as in `storeWith` */
  constructor(models: readonly string[], reference: string, config: Partial<ServeConfig> = {}) {
    beforeAll(async () => {
      this.#store = await storeWith(...models);
      this.#server = await this.#store.serve(reference, config);
    });
    afterAll(async () => {
      await this.#server?.[Symbol.asyncDispose]();
      await this.#store?.[Symbol.asyncDispose]();
    });
  }

  get url(): URL {
    return this.#here.url;
  }

  get client(): Client {
    return this.#here.client;
  }

  /** Starts another server, for another model of the same store. */
  beside(reference: string, config: Partial<ServeConfig> = {}): Promise<TestServer> {
    if (this.#store === undefined) throw new Error("no test has begun");
    return this.#store.serve(reference, config);
  }

  get #here(): TestServer {
    if (this.#server === undefined) throw new Error("no test has begun");
    return this.#server;
  }
}
