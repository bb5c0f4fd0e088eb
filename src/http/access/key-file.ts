/** Reads the file of API keys: a TOML table for each key, with the hash of its secret. */
import { z } from "zod";
import { SconceError } from "../../base/errors.ts";

/**
 * The permissions that a key can have. predictions: start and cancel predictions. read: read results and the model's
 * description. metrics: read metrics. admin: reload, load and unload the models of the server.
 */
export const permissions = ["predictions", "read", "metrics", "admin"] as const;
export type Permission = (typeof permissions)[number];

export const keyName = z
  .string()
  .regex(
    /^[A-Za-z0-9][\w.-]{0,63}$/,
    "must be 1 to 64 of A-Z, a-z, 0-9, _, . and -, the first of them a letter or digit",
  );

/** The fields of a key: a name, a share and permissions. */
const fields = {
  name: keyName,
  /** Weight in fair scheduling between clients. A client without a key has 1. */
  share: z.int("must be a whole number").min(1, "must be 1 to 1000").max(1000, "must be 1 to 1000").default(1),
  only: z
    .array(z.enum(permissions, `must be some of ${permissions.join(", ")}`))
    .min(1)
    .default([...permissions]),
};
/** SHA-256 of the secret in hexadecimal digits. A secret has 256 random bits, so its hash needs no salt and no slow function. */
const hash = z
  .string()
  .regex(/^sha256:[0-9a-f]{64}$/, "must be sha256: and 64 hex digits, as `sconce key new` prints it")
  .transform((text) => text.slice("sha256:".length));
const keyEntry = z.strictObject({ ...fields, hash });
const fileSchema = z.strictObject({ key: z.array(keyEntry, "must be tables that begin with [[key]]").default([]) });

export type KeyEntry = Readonly<z.output<typeof keyEntry>>;

/** Parses the key file. @throws SconceError `usage` that names each wrong field */
export function parseKeys(text: string, path: string): readonly KeyEntry[] {
  const file = fileSchema.safeParse(parsed(text, path));
  if (!file.success) throw new SconceError("usage", `${path} has no valid API keys:\n${z.prettifyError(file.error)}`);
  const entries = file.data.key;
  const hashes = new Set(entries.map(({ hash }) => hash));
  if (hashes.size < entries.length) throw new SconceError("usage", `${path} has two keys with the same hash`);
  return entries;
}

function parsed(text: string, path: string): unknown {
  try {
    return Bun.TOML.parse(text);
  } catch (error) {
    throw new SconceError("usage", `${path} is not TOML: ${error instanceof Error ? error.message : error}`);
  }
}

export function hashOfSecret(secret: string): string {
  return new Bun.CryptoHasher("sha256").update(secret).digest("hex");
}
