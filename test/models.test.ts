/** Several models in one server: each has its routes below `/models`, and its own engine process. */
import { describe, expect, test } from "bun:test";
import { ApiDocument } from "./helpers/api-document.ts";
import { adminOf, clientOf } from "./helpers/cli.ts";
import type { Client } from "./helpers/client.ts";
import { eventsOf } from "./helpers/events.ts";
import { fixture, tempDir } from "./helpers/fixture.ts";
import { modelText, writeModel } from "./helpers/model-text.ts";
import { inRole, until } from "./helpers/running.ts";
import { storeWith } from "./helpers/server.ts";

const dir = fixture(tempDir);
const store = fixture(async () => {
  const ten = "({ y }) => ({ y: 10 * y.data[0] })";
  const setup = '() => { if (process.env.BREAKS_SETUP === "1") throw new Error("no such tokenizer"); }';
  return storeWith(
    "lab",
    "texts",
    await writeModel(dir, modelText({ name: '"team/ten"', postprocess: ten }), "ten"),
    await writeModel(dir, modelText({ name: '"broken"', setup }), "broken"),
  );
});

async function jsonAt(client: Client, path: string, body?: object): Promise<unknown> {
  return (await (body === undefined ? client.fetch(path) : client.at(path).post(body))).json();
}

describe("a server with three models", () => {
  const server = fixture(() => store.start(["lab", "team/ten", "texts", "--access-log"]));
  const client = fixture(() => clientOf(server));

  test("answers for each model below its name and for the first model at the root, with one engine process each", async () => {
    expect((await client.predictAt("", [{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
    expect((await client.predictAt("/models/lab", [{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
    expect((await client.predictAt("/models/team/ten", [{ x: 1 }])).outputs).toEqual([{ y: 30 }]);
    expect((await client.predictAt("/models/team/ten:latest", [{ x: 2 }])).outputs).toEqual([{ y: 50 }]);
    expect(await inRole(server.pid, "engine")).toHaveLength(3);
    expect(await inRole(server.pid, "front")).toHaveLength(1);
  });

  test("names model, build and number of each process in ps and in log lines", async () => {
    const pids = [...(await inRole(server.pid, "engine")), ...(await inRole(server.pid, "front"))];
    const commands = await Promise.all(pids.map((pid) => Bun.file(`/proc/${pid}/cmdline`).text()));
    const titles = commands.map((command) => command.split("\0").slice(-3, -1).join(" ")).sort();
    expect(titles).toEqual([
      expect.stringMatching(/^\[engine\] 1 lab:latest@[0-9a-f]{12}$/),
      expect.stringMatching(/^\[engine\] 2 team\/ten:latest@[0-9a-f]{12}$/),
      expect.stringMatching(/^\[engine\] 3 texts:latest@[0-9a-f]{12}$/),
      "[front] 1",
    ]);
    expect(await server.line("Setting up the model lab:latest@")).toMatch(/@[0-9a-f]{12}$/);
    const running = server.lines.filter((line) => line.includes("Running on"));
    for (const end of [/ model=lab:latest@\w+ engine=1$/, / model=team\/ten:latest@\w+ engine=2$/])
      expect(running).toContainEqual(expect.stringMatching(end));
    await client.predictAt("/models/lab", [{ x: 1 }]);
    expect(await server.line("POST /models/lab/predictions 200")).toContain(" front=1 ");
  });

  test("lets idle OpenMP threads of its engine processes spin only shortly, because other models need the cores", async () => {
    const engines = await inRole(server.pid, "engine");
    const environments = await Promise.all(engines.map((pid) => Bun.file(`/proc/${pid}/environ`).text()));
    const spins = environments.map((each) => /(?:^|\0)GOMP_SPINCOUNT=(\d+)\0/.exec(each)?.[1]);
    expect(spins).toEqual(["2000", "2000", "2000"]);
  });

  test("lists the models", async () => {
    const list = await jsonAt(client, "/models");
    expect(list).toMatchObject({
      models: [
        { name: "lab", state: "ready", url: "/models/lab", description: "Doubles a number and adds one." },
        { name: "team/ten", state: "ready", url: "/models/team/ten" },
        { name: "texts", state: "ready" },
      ],
    });
    const own = await client.fetch("/models/team/ten", { headers: { Accept: "text/html" } });
    expect(own.url).toBe(new URL("/models/team/ten/demo", client.url).href);
    expect(await own.text()).toContain("<title>team/ten</title>");
  });

  test.each([
    ["/models/team%2Ften%3Alatest/health/ready", "/models/team/ten:latest/health/ready"],
    ["/models/team%2Ften/examples", "/models/team/ten/examples"],
    ["/v2/models/team%2Ften/ready", "/v2/models/team/ten/ready"],
    ["/v2/models/lab/versions/sha256%3A0", "/v2/models/lab/versions/sha256:0"],
    ["/models/100%25", "/models/100%"],
    ["/models/%zz", "/models/%25zz"],
  ])("a client may escape characters in a path: %s", async (escaped, plain) => {
    const answers = await Promise.all([escaped, plain].map((path) => client.fetch(path)));
    const [first, second] = await Promise.all(answers.map(async (answer) => [answer.status, await answer.json()]));
    expect(first).toEqual(second);
    expect(answers[0]?.status).toBe(/ready|examples/.test(plain) ? 200 : 404);
  });

  test("has all routes of a model below its name, and Locations that a client can read", async () => {
    for (const path of ["", "/docs", "/demo", "/examples", "/health/ready", "/metrics", "/v2", "/v1/models"]) {
      expect([path, await client.status(`/models/team/ten${path}`)]).toEqual([path, 200]);
    }
    const document = await jsonAt(client, "/models/team/ten/openapi.json");
    expect(document).toMatchObject({ servers: [{ url: "/models/team/ten" }] });
    const events = await client.at("/models/team/ten/predictions").stream([{ x: 3 }]);
    const location = events.headers.get("location") ?? "";
    expect(location).toStartWith("/models/team/ten/predictions/");
    let last: unknown;
    for await (const { data } of eventsOf(events)) last = data;
    expect(last).toMatchObject({ outputs: [{ y: 70 }], model: { repository: "team/ten" } });
    expect(await jsonAt(client, location)).toMatchObject({ status: "success" });
    // Other models do not know the id.
    expect((await client.fetch(location.replace("team/ten", "lab"))).status).toBe(404);
  });

  test("has the list in the OpenAPI document of each model", async () => {
    const pathsOf = async (base: string) =>
      Object.keys(((await jsonAt(client, `${base}/openapi.json`)) as { paths: object }).paths);
    expect(await pathsOf("")).toContain("/models");
    expect(await pathsOf("/models/lab")).toEqual(await pathsOf(""));
    expect(await jsonAt(client, "/models/lab/models")).toEqual(await jsonAt(client, "/models"));
    const document = new ApiDocument(client, await jsonAt(client, "/openapi.json"));
    const asked = document.requests.filter(({ path }) => path === "/models");
    for (const each of asked) expect([each.path, await document.faultsOf(each)]).toEqual([each.path, []]);
  });

  test("lets nobody load or unload a model at the port for everybody", async () => {
    for (const name of ["lab", "team/ten", "texts", "none"]) {
      for (const move of ["load", "unload"]) {
        for (const path of [
          `/v2/repository/models/${name}/${move}`,
          `/models/lab/v2/repository/models/${name}/${move}`,
        ]) {
          const answer = await client.fetch(path, { method: "POST" });
          expect([path, answer.status]).toEqual([path, 404]);
        }
      }
    }
    const answer = await client.fetch("/v2/repository/models/lab/unload", { method: "POST" });
    expect(await answer.json()).toEqual({ error: expect.stringContaining("--admin-port") });
    expect(await inRole(server.pid, "engine")).toHaveLength(3);
  });

  test("has no route of an API that --api leaves out", async () => {
    await using bare = store.start(["lab", "texts", "--api", "none", "--admin-port", "0"]);
    const ports = [await clientOf(bare), await adminOf(bare)];
    for (const port of ports) {
      for (const path of ["/v2/models/lab", "/v2/models/texts/ready", "/v2", "/v1/models", "/models/lab/v2"])
        expect([path, await port.status(path)]).toEqual([path, 404]);
      const moves = ["load", "unload"].map((move) => `/v2/repository/models/texts/${move}`);
      for (const path of [
        "/v2/repository/index",
        ...moves,
        "/models/texts/v2/repository/index",
        "/mcp",
        "/v1/embeddings",
      ])
        expect([path, (await port.fetch(path, { method: "POST" })).status]).toEqual([path, 404]);
    }
    expect(await inRole(bare.pid, "engine")).toHaveLength(2);
  });

  test("lists its models if a path names none of them", async () => {
    for (const path of ["/models/none", "/models/none/predictions", "/models/tea", "/models/"]) {
      const answer = await client.fetch(path);
      if (path === "/models/") expect(answer.status).toBe(200);
      else {
        expect([path, answer.status]).toEqual([path, 404]);
        expect(await answer.text()).toContain("this server has lab, team/ten, texts");
      }
    }
  });

  test("answers the protocol v2 for each model at the root", async () => {
    const x = { name: "x", datatype: "FP64", shape: [1, 1], data: [4] };
    expect(await jsonAt(client, "/v2/models/team/ten/infer", { inputs: [x] })).toMatchObject({
      model_name: "team/ten",
      outputs: [{ name: "y", data: [90] }],
    });
    expect(await jsonAt(client, "/v2/models/texts")).toMatchObject({ name: "texts" });
    expect(await client.status("/v2/models/team/ten/ready")).toBe(200);
    expect(await client.status("/models/texts/v2/models/texts")).toBe(200);
    expect(await client.status("/models/texts/v2/models/lab")).toBe(404);
    const missing = await client.fetch("/v2/models/none/ready");
    expect(missing.status).toBe(404);
    expect(await missing.json()).toEqual({ error: expect.any(String) });
    const index = await jsonAt(client, "/v2/repository/index", {});
    expect(index).toMatchObject([
      { name: "lab", state: "READY" },
      { name: "team/ten", state: "READY" },
      { name: "texts", state: "READY" },
    ]);
  });

  test("lists the models for OpenAI's clients", async () => {
    const list = await jsonAt(client, "/v1/models");
    expect(list).toMatchObject({ data: [{ id: "lab" }, { id: "team/ten" }, { id: "texts" }] });
    expect(await jsonAt(client, "/v1/models/team/ten")).toMatchObject({ id: "team/ten" });
    expect(await jsonAt(client, "/v1/models/none")).toMatchObject({ error: { message: expect.any(String) } });
  });

  test("answers OpenAI's clients for the model that the body names", async () => {
    const embed = (model: string | undefined) => client.at("/v1/embeddings").post({ model, input: "ab" });
    const answer = await embed("texts");
    expect(answer.status).toBe(200);
    expect(await answer.json()).toMatchObject({ model: "texts", data: [{ embedding: expect.any(Array) }] });
    const other = await embed("team/ten");
    expect(other.status).toBe(404);
    expect(await other.text()).toContain("the model team/ten cannot answer this");
    // A request without a model's name goes to the first model.
    expect(await (await embed(undefined)).text()).toContain("the model lab cannot answer this");
    expect(await (await embed("none")).text()).toContain('this server has \\"lab\\", \\"team/ten\\", \\"texts\\"');
    const rank = { model: "texts", query: "a", documents: ["b", "a"] };
    const ranked = await jsonAt(client, "/v1/rerank", rank);
    expect(ranked).toMatchObject({ model: "texts", results: [{ index: 1 }, { index: 0 }] });
  });

  test("counts each model under its name, and the server's memory once", async () => {
    const count = async () => client.metric('sconce_predictions_total{model="texts",status="success"}');
    const before = await count();
    await client.predictAt("/models/texts", [{ text: "a" }]);
    expect(await count()).toBe(before + 1);
    const text = await client.text("/metrics");
    const ofServer = text.split("\n").filter((line) => line.startsWith("sconce_memory_limit_bytes"));
    expect(ofServer).toEqual([expect.not.stringContaining("model=")]);
    expect(text).toMatch(/sconce_http_requests_total\{model="texts",route="\/predictions",code="200"\} [1-9]/);
    expect(text).toMatch(/sconce_http_requests_total\{route="\/models",code="200"\} [1-9]/);
    expect(text).toMatch(/process_resident_memory_bytes\{process="engine of team\/ten"\} [1-9]/);
  });

  test("writes the name of the model into the access log", async () => {
    await client.predictAt("/models/team/ten", [{ x: 5 }]);
    expect(await server.line("POST /models/team/ten/predictions 200")).toBeString();
  });

  test("keeps the other models when an engine process dies", async () => {
    const [first = 0] = await inRole(server.pid, "engine");
    process.kill(first, "SIGKILL");
    const outputs = await Promise.all(
      ["/models/lab", "/models/team/ten"].map((path) => client.predictAt(path, [{ x: 1 }])),
    );
    expect(outputs.map(({ status }) => status)).toEqual(["success", "success"]);
    await until(async () => (await inRole(server.pid, "engine")).length === 3);
  });
});

test("a broken model is reported by name, and the other models are served", async () => {
  await using server = store.start(["broken", "lab", "texts", "--admin-port", "0"], { BREAKS_SETUP: "1" });
  const client = await clientOf(server);
  const admin = await adminOf(server);
  // The root has the first model's routes, but these routes belong to the server.
  for (const path of ["/health/live", "/health/ready", "/metrics"])
    expect([path, await admin.status(path)]).toEqual([path, 200]);
  expect((await admin.fetch("/reload", { method: "POST" })).status).toBe(200);
  expect(await client.status("/health/ready")).toBe(200);
  expect(await server.line("The model broken:latest@")).toContain("no such tokenizer");
  expect((await client.predictAt("/models/lab", [{ x: 1 }])).outputs).toMatchObject([{ y: 3 }]);
  const refused = await client.at("/models/broken/predictions").post([]);
  expect(refused.status).toBe(503);
  // Only the log has the message of the model's code.
  expect(await refused.text()).toContain("the model cannot be served: the model failed in setup");
  expect(await jsonAt(client, "/models")).toMatchObject({
    models: [
      { name: "broken", state: "failed", reason: expect.stringContaining("setup") },
      { name: "lab", state: "ready" },
      { name: "texts", state: "ready" },
    ],
  });
  // Requests to the root may name the models that work.
  expect(await jsonAt(client, "/v1/models")).toMatchObject({ data: [{ id: "lab" }, { id: "texts" }] });
  const embed = async (model: string | undefined) => {
    const answer = await client.at("/v1/embeddings").post({ model, input: "ab" });
    return [answer.status, (await answer.json()) as object] as const;
  };
  expect(await embed("texts")).toMatchObject([200, { model: "texts" }]);
  for (const model of [undefined, "broken"])
    expect(await embed(model)).toMatchObject([503, { error: { code: "not_ready" } }]);
  expect(await client.status("/v1/models/broken")).toBe(503);
  expect((await client.post([])).status).toBe(503);
  server.kill("SIGTERM");
  expect(await server.exited).toBe(0);
});

test("a model whose store is damaged is reported by name, and the others are served", async () => {
  await using stores = await tempDir();
  await Bun.write(stores.join("lab.sqlite"), "no database".repeat(1000));
  await using server = store.start(["lab", "texts", "--store", stores.path]);
  const client = await clientOf(server);
  expect(await server.line("The model lab:latest@")).toContain(stores.join("lab.sqlite"));
  const reason = "its predictions cannot be read";
  expect(await jsonAt(client, "/models")).toMatchObject({ models: [{ state: "failed", reason }, { state: "ready" }] });
  const refused = await client.at("/models/lab/predictions").post([]);
  expect([refused.status, await refused.text()]).toEqual([503, expect.stringContaining(reason)]);
  expect((await client.predictAt("/models/texts", [{ text: "a" }])).status).toBe("success");
  expect(await inRole(server.pid, "engine")).toHaveLength(1);
});

test("a server without a usable model ends with the fault of its first model", async () => {
  const file = dir.join("broken.toml");
  await Bun.write(file, '[[model]]\nmodel = "broken"\n[[model]]\nmodel = "broken"\nname = "again"\n');
  await using server = store.start(["--models", file], { BREAKS_SETUP: "1" });
  expect(await server.exited).toBe(1);
  expect(server.lines.at(-1)).toContain("no such tokenizer");
});

describe("--models", () => {
  test("takes options and a name for each model", async () => {
    const file = dir.join("models.toml");
    await Bun.write(
      file,
      `[[model]]
model = "lab"
batch-size = 2

[[model]]
model = "lab"
name = "second"
batch-size = 3
`,
    );
    await using server = store.start(["--models", file]);
    const client = await clientOf(server);
    expect(await jsonAt(client, "/models/lab")).toMatchObject({ name: "lab", batch_size: 2 });
    expect(await jsonAt(client, "/models/second")).toMatchObject({ name: "second", batch_size: 3 });
  });

  const faults: readonly [file: string, content: string, message: string][] = [
    ["m.toml", '[[model]]\nmodel = "lab"\nbatch-sise = 2', "unknown option batch-sise; did you mean batch-size?"],
    ["m.toml", '[[model]]\nmodel = "lab"\nbatch-size = 0', "batch-size of lab must be a whole number from 1 to 65536"],
    ["m.toml", '[[model]]\nname = "lab"', "m.toml has no valid list of models"],
    ["m.toml", "lab", "m.toml has no valid list of models"],
    ["m.toml", '[[model]]\nmodel = "lab"\n[[model]]\nmodel = "lab"', "two models have the name lab"],
  ];
  test.each(faults)("in %p refuses %p", async (name, content, message) => {
    await Bun.write(dir.join(name), content);
    const { code, stderr } = await store.cliHere(["serve", "--models", dir.join(name)]);
    expect(stderr).toContain(message);
    expect(code).toBe(2);
  });
});
