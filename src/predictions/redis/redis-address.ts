/** Parses the address in `--queue`, and creates a Redis client for it. */
import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import { Cluster, Redis, type RedisOptions } from "ioredis";
import { messageOf, SconceError } from "../../base/errors.ts";

type Settings = Omit<RedisOptions, "replyMapping">;

/** The hosts and logins of Redis, as options of its client. */
export interface RedisAddress {
  /** The first nodes of a Cluster; else empty. */
  readonly nodes: { readonly host: string; readonly port: number }[];
  readonly options: Settings;
}

/** TLS, kind, login, hosts, path, query. A password may contain any character, so the login ends at the last `@`. */
const ADDRESS = /^redis(s?)(?:-(sentinel|cluster))?:\/\/(?:(.*)@)?([^/?]*)(\/[^?]*)?(?:\?(.*))?$/s;
const HOST = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d+))?$/i;
const FORMS = "expected redis://[user:password@]host[:port][/db], or an address of Sentinels, a Cluster or a socket";
const FILES = ["ca", "cert", "key"] as const;
const PARAMETERS = [...FILES, "sentinel_username", "sentinel_password"];

/**
 * Formats: `redis://[user:password@]host[:port][/db]`, `redis-sentinel://host,host/master[/db]`, `redis-cluster://host,host`, and
 * `redis:///PATH.sock` for a Unix socket. `rediss` instead of `redis` uses TLS, with files from `?ca=PATH&cert=PATH&key=PATH`. Sentinels log in with
 * `?sentinel_username=USER&sentinel_password=PASSWORD`. Percent encoding is allowed, but a password needs it only for a `%` before two hexadecimal
 * digits, and in the query for `&` and `@`.
 * @throws SconceError `usage`, whose message has no part of the address, because any part may belong to a password
 */
export function parseRedisAddress(text: string): RedisAddress {
  const match = ADDRESS.exec(text);
  if (match === null) throw unusable(FORMS);
  const [, hasTls, kind, login = "", list = "", path = "/", query = ""] = match;
  const parameters = parametersOf(query);
  const tls = hasTls === "" ? undefined : tlsOf(parameters);
  const colon = login.indexOf(":");
  const username = decoded(colon < 0 ? login : login.slice(0, colon));
  const password = colon < 0 ? undefined : decoded(login.slice(colon + 1));
  const options: Settings = { username: username === "" ? undefined : username, password, tls };
  if (kind === undefined && list === "" && path !== "/")
    return { nodes: [], options: { ...options, path: decoded(path) } };
  if (list === "") throw unusable("a host is missing");
  const nodes = list.split(",").map((each) => {
    const [, six, host = six, port = kind === "sentinel" ? 26379 : 6379] = HOST.exec(each) ?? [];
    if (host === undefined) throw unusable(FORMS);
    return { host, port: Number(port) };
  });
  const [first = "", second = ""] = path.slice(1).split("/");
  const db = kind === "sentinel" ? second : first;
  if (!/^\d*$/.test(db)) throw unusable("the database after the host is no number, expected a number");
  if (db !== "") options.db = Number(db);
  if (kind === "cluster") return { nodes, options };
  if (kind === "sentinel") {
    if (first === "") throw unusable("the master's name is missing: redis-sentinel://host/NAME");
    const sentinelUsername = parameters.get("sentinel_username");
    const sentinelPassword = parameters.get("sentinel_password");
    const more = { sentinelUsername, sentinelPassword, sentinelTLS: tls, enableTLSForSentinelMode: tls !== undefined };
    return { nodes: [], options: { ...options, sentinels: nodes, name: decoded(first), ...more } };
  }
  if (nodes.length > 1) throw unusable("several hosts need redis-sentinel:// or redis-cluster://");
  return { nodes: [], options: { ...options, ...nodes[0] } };
}

export function redisClient({ nodes, options }: RedisAddress, settings: Settings): Redis | Cluster {
  const redisOptions = { ...settings, ...options };
  if (nodes.length === 0) return new Redis(redisOptions);
  const { retryStrategy, enableOfflineQueue = true } = settings;
  return new Cluster(nodes, {
    redisOptions,
    enableOfflineQueue,
    // No delay: a failed command throws at once, and is not sent again.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    ...(retryStrategy == null ? {} : { clusterRetryStrategy: retryStrategy }),
  });
}

function parametersOf(query: string): ReadonlyMap<string, string> {
  const pairs = query === "" ? [] : query.split("&");
  return new Map(
    pairs.map((pair) => {
      const [name = "", ...value] = pair.split("=");
      if (!PARAMETERS.includes(name)) throw unusable(FORMS);
      return [name, decoded(value.join("="))];
    }),
  );
}

/** Decodes percent encoding. A percent sign that begins no encoded character stands for itself. */
function decoded(text: string): string {
  return text.replace(/(?:%[0-9a-f]{2})+/gi, (encoded) => {
    try {
      return decodeURIComponent(encoded);
    } catch {
      return encoded;
    }
  });
}

function tlsOf(parameters: ReadonlyMap<string, string>): ConnectionOptions {
  const tls: ConnectionOptions = {};
  for (const name of FILES) {
    const path = parameters.get(name);
    try {
      if (path !== undefined) tls[name] = readFileSync(path);
    } catch (error) {
      throw unusable(`${name} cannot be read: ${messageOf(error)}`);
    }
  }
  return tls;
}

/** An error without the address, which may have a password. */
function unusable(why: string): SconceError {
  return new SconceError("usage", `--queue: ${why}`);
}
