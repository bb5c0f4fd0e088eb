/** The two Redis connections of a queue: one for commands, and one for large values. */
import { parseRedisAddress } from "../../src/predictions/redis/redis-address.ts";
import { RedisLink } from "../../src/predictions/redis/redis-link.ts";

export interface RedisLinks extends Disposable {
  readonly link: RedisLink;
  readonly largeLink: RedisLink;
}

/** Opens the connections, and resolves once they are ready. @param url the value of `--queue` */
export async function redisLinks(url: string): Promise<RedisLinks> {
  const ready = [Promise.withResolvers<void>(), Promise.withResolvers<void>()] as const;
  const options = { address: parseRedisAddress(url), onFault: () => {} };
  const link = new RedisLink({ ...options, onReady: ready[0].resolve });
  const largeLink = new RedisLink({ ...options, use: "large", onReady: ready[1].resolve });
  await Promise.all(ready.map(({ promise }) => promise));
  return {
    link,
    largeLink,
    [Symbol.dispose]() {
      link[Symbol.dispose]();
      largeLink[Symbol.dispose]();
    },
  };
}

/** A connection for reads that block. */
export async function blocking(url: string): Promise<RedisLink> {
  const ready = Promise.withResolvers<void>();
  const address = parseRedisAddress(url);
  const link = new RedisLink({ address, use: "blocking", onFault: () => {}, onReady: ready.resolve });
  await ready.promise;
  return link;
}
