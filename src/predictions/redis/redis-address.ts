/** Parses the address in `--queue`, and creates a Redis client for it. */
import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import { Cluster, Redis, type RedisOptions } from "ioredis";
import { messageOf, SconceError } from "../../base/errors.ts";

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

type Login = Pick<RedisOptions, "username" | "password" | "db" | "tls">;

/** The hosts and logins of Redis, as options of its client. */
export interface RedisAddress {
  readonly kind: "one" | "sentinel" | "cluster";
  /** The first nodes of a Cluster; else empty. */
  readonly nodes: readonly Host[];
  readonly options: Login &
    Pick<RedisOptions, "path" | "host" | "port" | "sentinels" | "name"> &
    Pick<RedisOptions, "sentinelUsername" | "sentinelPassword" | "sentinelTLS" | "enableTLSForSentinelMode">;
}

interface Host {
  readonly host: string;
  readonly port: number;
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
  const parameters = new Map(
    query.split("&").map((each) => [each.split("=", 1)[0], decoded(each.slice(each.indexOf("=") + 1))]),
  );
  const tls = scheme === "rediss" ? tlsOf(parameters) : undefined;
  const options: Login = {
    ...(user === "" ? {} : { username: user }),
    ...(colon < 0 ? {} : { password: decoded(login.slice(colon + 1)) }),
    ...(db === "" ? {} : { db: Number(db) }),
    ...(tls === undefined ? {} : { tls }),
  };
  if (kind === "cluster") return { kind, nodes: hosts, options };
  if (kind === "one")
    return { kind, nodes: [], options: { ...options, ...(isSocket ? { path: decoded(socket) } : hosts[0]) } };
  const [sentinelUsername, sentinelPassword] = ["username", "password"].map((each) =>
    parameters.get(`sentinel_${each}`),
  );
  const sentinel: RedisAddress["options"] = {
    sentinels: hosts,
    name: decoded(first),
    ...(sentinelUsername ? { sentinelUsername } : {}),
    ...(sentinelPassword ? { sentinelPassword } : {}),
    ...(tls === undefined ? {} : { sentinelTLS: tls, enableTLSForSentinelMode: true }),
  };
  return { kind, nodes: [], options: { ...options, ...sentinel } };
}

export function redisClient({ kind, nodes, options }: RedisAddress, settings: ConnectionSettings): Redis | Cluster {
  if (kind !== "cluster") return new Redis({ ...settings, ...options });
  const { retryStrategy, enableOfflineQueue = true, ...nodeSettings } = settings;
  const { path: _path, host: _host, port: _port, sentinels: _sentinels, ...login } = options;
  return new Cluster([...nodes], {
    enableOfflineQueue,
    redisOptions: { ...nodeSettings, ...login },
    // No delay: a failed command throws at once, and is not sent again.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    ...(retryStrategy == null ? {} : { clusterRetryStrategy: retryStrategy }),
  });
}

function hostOf(text: string, defaultPort: number): Host {
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
