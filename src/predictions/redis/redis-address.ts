/** Parses the address in `--queue`, and creates a Redis client for it. */
import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import { Cluster, Redis, type RedisOptions } from "ioredis";
import { messageOf, SconceError } from "../../base/errors.ts";

export type RedisClient = Redis | Cluster;

export type ConnectionSettings = Pick<
  RedisOptions,
  | "enableOfflineQueue"
  | "maxRetriesPerRequest"
  | "autoResendUnfulfilledCommands"
  | "retryStrategy"
  | "reconnectOnError"
  | "connectTimeout"
  | "socketTimeout"
  | "commandTimeout"
  | "sentinelCommandTimeout"
  | "protocol"
>;

/** Hosts and logins of Redis. Several hosts are Sentinels, or the first nodes of a Cluster. */
export interface RedisAddress {
  readonly kind: "one" | "sentinel" | "cluster";
  readonly hosts: readonly { readonly host: string; readonly port: number }[];
  /** Path of a Unix socket, which replaces the hosts. */
  readonly path?: string;
  /** The name by which Sentinels know the master. */
  readonly master?: string;
  readonly login: Pick<RedisOptions, "username" | "password" | "db">;
  readonly sentinelLogin: Pick<RedisOptions, "sentinelUsername" | "sentinelPassword">;
  readonly tls: ConnectionOptions | undefined;
}

const DEFAULT_PORTS = { one: 6379, sentinel: 26379, cluster: 6379 };

const HOST = String.raw`(?:\[[0-9a-fA-F:.]+\]|[\w.-]+)(?::\d+)?`;
const PARAMETER = "(?:ca|cert|key|sentinel_username|sentinel_password)=[^&]*";
/**
 * Scheme, kind, login, hosts, path, path of a socket, query. A password may contain any character, so the login ends at the first `@` before a valid
 * rest.
 */
const ADDRESS = new RegExp(
  String.raw`^(rediss?)(?:-(sentinel|cluster))?://(?:(.*?)@)??(?:((?:${HOST}(?:,${HOST})*)?)(/[^@?]*)?|(/[^?]+))(?:\?(${PARAMETER}(?:&${PARAMETER})*))?$`,
  "s",
);

/**
 * Formats: `redis://[user:password@]host[:port][/db]`, `redis-sentinel://host,host/master[/db]`, `redis-cluster://host,host`, and
 * `redis:///PATH.sock` for a Unix socket. `rediss` instead of `redis` uses TLS, with files from `?ca=PATH&cert=PATH&key=PATH`. Sentinels log in with
 * `?sentinel_username=USER&sentinel_password=PASSWORD`. Percent encoding is allowed, but a password needs it only for a `%` before two hexadecimal
 * digits, and in the query for `&`.
 * @throws SconceError `usage`, whose message has no part of the address, because any part may belong to a password
 */
export function parseRedisAddress(text: string): RedisAddress {
  const match = ADDRESS.exec(text);
  if (match === null)
    throw unusable(
      "expected redis://[user:password@]host[:port][/db], or an address of Sentinels, a Cluster or a socket",
    );
  const [, scheme, kind = "one", login = "", list = "", path = "/", socket = path, query = ""] = match;
  if (kind !== "one" && kind !== "sentinel" && kind !== "cluster") throw unusable("expected redis://host:port");
  const hosts = list === "" ? [] : list.split(",").map((each) => hostOf(each, DEFAULT_PORTS[kind]));
  const isSocket = kind === "one" && hosts.length === 0 && socket.length > 1;
  if (!isSocket && hosts.length === 0) throw unusable("a host is missing");
  if (kind === "one" && hosts.length > 1) throw unusable("several hosts need redis-sentinel:// or redis-cluster://");
  const [first = "", second = ""] = isSocket ? [] : path.slice(1).split("/");
  if (kind === "sentinel" && first === "") throw unusable("the master's name is missing: redis-sentinel://host/NAME");
  const db = kind === "sentinel" ? second : first;
  if (!/^\d*$/.test(db)) throw unusable("the database after the host is no number, expected a number");
  const colon = login.indexOf(":");
  const user = decoded(colon < 0 ? login : login.slice(0, colon));
  const options = new Map(
    query.split("&").map((each) => [each.split("=", 1)[0], decoded(each.slice(each.indexOf("=") + 1))]),
  );
  const [sentinelUser, sentinelPassword] = ["username", "password"].map((name) => options.get(`sentinel_${name}`));
  return {
    kind,
    hosts,
    ...(isSocket ? { path: decoded(socket) } : {}),
    ...(kind === "sentinel" ? { master: decoded(first) } : {}),
    login: {
      ...(user === "" ? {} : { username: user }),
      ...(colon < 0 ? {} : { password: decoded(login.slice(colon + 1)) }),
      ...(db === "" ? {} : { db: Number(db) }),
    },
    sentinelLogin: {
      ...(sentinelUser ? { sentinelUsername: sentinelUser } : {}),
      ...(sentinelPassword ? { sentinelPassword } : {}),
    },
    tls: scheme === "rediss" ? tlsOf(options) : undefined,
  };
}

export function redisClient(
  { kind, hosts, path, master, login, sentinelLogin, tls }: RedisAddress,
  options: ConnectionSettings,
): RedisClient {
  const common = { ...options, ...login, ...(tls === undefined ? {} : { tls }) };
  const { enableOfflineQueue = true, ...redisOptions } = common;
  const nodes = [...hosts];
  if (kind === "cluster") {
    const { retryStrategy, ...nodeOptions } = redisOptions;
    return new Cluster(nodes, {
      enableOfflineQueue,
      redisOptions: nodeOptions,
      // No delay: a failed command throws at once, and is not sent again.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      ...(retryStrategy == null ? {} : { clusterRetryStrategy: retryStrategy }),
    });
  }
  if (kind === "sentinel") {
    const sentinelOptions = { ...sentinelLogin, ...(tls && { sentinelTLS: tls, enableTLSForSentinelMode: true }) };
    return new Redis({ ...common, ...sentinelOptions, sentinels: nodes, name: master ?? "" });
  }
  return new Redis({ ...common, ...(path === undefined ? hosts[0] : { path }) });
}

function hostOf(text: string, defaultPort: number): { host: string; port: number } {
  const [, six, host = six ?? "", port = defaultPort] = /^(?:\[(.*)\]|([^:]+))(?::(\d+))?$/.exec(text) ?? [];
  return { host, port: Number(port) };
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

function tlsOf(options: ReadonlyMap<string | undefined, string>): ConnectionOptions {
  const file = (name: string) => {
    const path = options.get(name);
    if (path === undefined) return {};
    try {
      return { [name]: readFileSync(path) };
    } catch (error) {
      throw unusable(`${name} cannot be read: ${messageOf(error)}`);
    }
  };
  return { ...file("ca"), ...file("cert"), ...file("key") };
}

/** An error without the address, which may have a password. */
function unusable(why: string): SconceError {
  return new SconceError("usage", `--queue: ${why}`);
}
