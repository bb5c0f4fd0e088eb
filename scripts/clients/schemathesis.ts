/**
 * Runs schemathesis: it makes valid and invalid requests from the OpenAPI documents of models of examples/, and checks
 * the answers.
 */
import { join } from "node:path";
import { preparedModel } from "../../examples/minilm/prepared.ts";
import { isObject } from "../../src/base/json.ts";
import { tempDir } from "../../test/helpers/fixture.ts";
import { storeWith, type TestServer } from "../../test/helpers/server.ts";
import { root } from "../setup/step.ts";
import { environment, sources } from "./environment.ts";

const examples = ["digits", "upscale", "writer", "minilm"] as const;

export interface SchemathesisOptions {
  /** Seed of the requests. The time limit decides how many are sent. */
  readonly seed: number;
  /** Time limit for the requests to each model of examples/, in seconds. */
  readonly seconds: number;
  readonly only: string | undefined;
}

export async function schemathesis({ seed, seconds, only }: SchemathesisOptions): Promise<void> {
  console.log(`schemathesis --seed ${seed} --seconds ${seconds}`);
  const { run } = await environment("schemathesis");
  await using dir = await tempDir();
  const names = examples.filter((name) => only === undefined || name === only);
  const folders = names.map(async (name) =>
    name === "minilm" ? (await preparedModel()).folder : join(root, "examples", name),
  );
  await using store = await storeWith(...(await Promise.all(folders)));
  await Bun.write(dir.join("schemathesis.toml"), `hooks = ${JSON.stringify(join(sources, "schemathesis_hooks.py"))}\n`);
  const failed: string[] = [];
  for (const name of names) {
    await using server = await store.serve(name);
    const path = dir.join(`${name}.json`);
    await Bun.write(path, JSON.stringify(await documentOf(server)));
    const limits = ["--seed", String(seed), "--max-time", String(seconds), "--generation-database", "none"];
    const place = [path, "--url", server.url.origin, "--continue-on-failure", "--no-color"];
    const command = [
      "env",
      "-C",
      dir.path,
      "st",
      "--config-file",
      dir.join("schemathesis.toml"),
      "run",
      ...place,
      ...limits,
    ];
    const report = await run(command, { PYTHONDONTWRITEBYTECODE: "1" }).catch((error: Error) => {
      failed.push(name);
      return error.message;
    });
    const counts = /([\d,]+ generated.*)/.exec(report)?.[1];
    console.log(failed.includes(name) ? report : `✓ schemathesis, ${name}: ${counts}`);
  }
  if (failed.length > 0) throw new Error(`schemathesis found failures in ${failed.join(", ")}`);
}

/** The OpenAPI document without Cancel-After: schemathesis reports the type of a number in a header as wrong. */
async function documentOf({ client }: TestServer): Promise<unknown> {
  const document: unknown = await client.json("/openapi.json");
  for (const path of Object.values(memberOf(document, "paths"))) {
    for (const operation of Object.values(isObject(path) ? path : {})) {
      if (!isObject(operation) || !Array.isArray(operation.parameters)) continue;
      const parameters: readonly unknown[] = operation.parameters;
      const others = parameters.filter((parameter) => !isObject(parameter) || parameter.name !== "Cancel-After");
      Object.assign(operation, { parameters: others });
    }
  }
  return document;
}

function memberOf(value: unknown, ...keys: readonly string[]): Record<string, unknown> {
  const found = keys.reduce<unknown>((at, key) => (isObject(at) ? at[key] : undefined), value);
  if (!isObject(found)) throw new Error(`the document has no ${keys.join(" ")}`);
  return found;
}
