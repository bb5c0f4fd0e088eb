/** A server for all tests of a file or of a `describe`. Starts before the first test, and stops after the last. */
import { afterAll, beforeAll } from "bun:test";
import type { ServeConfig } from "../../src/server/config.ts";
import type { Client } from "./client.ts";
import { storeWith, type TestServer, type TestStore } from "./server.ts";

export class SharedServer {
  #store: TestStore | undefined;
  #server: TestServer | undefined;

  /** @param models to build into the store, as in `storeWith` */
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

  /** Starts a second server for another model of the store, for a single test. */
  beside(reference: string, config: Partial<ServeConfig> = {}): Promise<TestServer> {
    if (this.#store === undefined) throw new Error("no test has begun");
    return this.#store.serve(reference, config);
  }

  get #here(): TestServer {
    if (this.#server === undefined) throw new Error("no test has begun");
    return this.#server;
  }
}
