/** A connection for commands with large values, which small ones must not wait behind: they go one by one, each with its whole time from its turn on. */
import { Gate } from "../../base/collections/gate.ts";
import { type Argument, isTimeUp, type LuaScript, RedisLink, type RedisLinkOptions } from "./redis-link.ts";

export class LargeLink implements Disposable {
  readonly #link: RedisLink;
  readonly #gate = new Gate(1);

  constructor(options: Omit<RedisLinkOptions, "use">) {
    this.#link = new RedisLink({ ...options, use: "large" });
  }

  /** As RedisLink does. @throws SconceError `queue_unavailable` */
  fetch(answerBytes: number, name: string, ...args: readonly Argument[]): Promise<unknown> {
    return this.#next(() => this.#link.fetch(answerBytes, name, ...args));
  }

  /** As RedisLink does. @throws SconceError `queue_unavailable` */
  run(script: LuaScript, key: string, args: readonly Argument[], answerBytes = 0): Promise<unknown> {
    return this.#next(() => this.#link.run(script, key, args, answerBytes));
  }

  [Symbol.dispose](): void {
    this.#link[Symbol.dispose]();
  }

  #next(send: () => Promise<unknown>): Promise<unknown> {
    return this.#gate.run(this, async () => {
      try {
        return await send();
      } catch (error) {
        // What is left of it would be in the way of the next one.
        if (isTimeUp(error)) this.#link.cut();
        throw error;
      }
    });
  }
}
