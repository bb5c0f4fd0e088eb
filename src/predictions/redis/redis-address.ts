/** Parses the address in `--queue` to options of the Redis client. */
import { readFileSync } from "node:fs";
import type { ConnectionOptions } from "node:tls";
import type { RedisOptions } from "ioredis";
import { messageOf, SconceError } from "../../base/errors.ts";

/** Host or socket, login and TLS of Redis, as options of its client. */
export type RedisAddress = Omit<RedisOptions, "replyMapping">;

/** TLS, login, host, path, query. A password may contain any character, so the login ends at the last `@`. */
const ADDRESS = /^redis(s?):\/\/(?:(.*)@)?([^/?]*)(\/[^?]*)?(?:\?(.*))?$/s;
const HOST = /^(?:\[([\da-f:.]+)\]|([\w.-]+))(?::(\d+))?$/i;
const FORMS = "expected redis://[user:password@]host[:port][/db], or redis:///PATH of a socket";
const FILES = ["ca", "cert", "key"] as const;

/**
 * Formats: `redis://[user:password@]host[:port][/db]`, and `redis:///PATH.sock` for a Unix socket. `rediss` instead of `redis` uses TLS, with files from
 * `?ca=PATH&cert=PATH&key=PATH`. Percent encoding is allowed, but a password needs it only for a `%` before two hexadecimal digits, and paths in the query
 * for `&` and `@`.
 * @throws SconceError `usage`, whose message has no part of the address, because any part may belong to a password
 */
export function parseRedisAddress(text: string): RedisAddress {
  const match = ADDRESS.exec(text);
  if (match === null) throw unusable(FORMS);
  const [, hasTls, login = "", place = "", path = "/", query = ""] = match;
  const colon = login.indexOf(":");
  const username = decoded(colon < 0 ? login : login.slice(0, colon));
  const password = colon < 0 ? undefined : decoded(login.slice(colon + 1));
  const files = filesOf(query);
  const tls = hasTls === "" ? {} : { tls: files };
  const options: RedisAddress = { ...(username !== "" && { username }), ...(password && { password }), ...tls };
  if (place === "" && path !== "/") return { ...options, path: decoded(path) };
  if (place === "") throw unusable("a host is missing");
  const [, six, host = six, port = 6379] = HOST.exec(place) ?? [];
  if (host === undefined) throw unusable(FORMS);
  const db = path.slice(1);
  if (!/^\d*$/.test(db)) throw unusable("the database after the host is no number, expected a number");
  return { ...options, host, port: Number(port), ...(db !== "" && { db: Number(db) }) };
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

/** The files for TLS that a query names. */
function filesOf(query: string): ConnectionOptions {
  const tls: ConnectionOptions = {};
  for (const pair of query === "" ? [] : query.split("&")) {
    const [, file, path = ""] = /^(\w+)=(.*)$/s.exec(pair) ?? [];
    const name = FILES.find((each) => each === file);
    if (name === undefined) throw unusable(FORMS);
    try {
      tls[name] = readFileSync(decoded(path));
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
