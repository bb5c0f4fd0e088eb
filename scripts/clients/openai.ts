/** Tries the clients of OpenAI and Cohere, LangChain and LlamaIndex on servers with minilm and a model that reranks. */
import { join } from "node:path";
import { preparedModel } from "../../examples/minilm/prepared.ts";
import { storeWith } from "../../test/helpers/server.ts";
import { environment, sources } from "./environment.ts";

export async function openaiClients(): Promise<void> {
  const { folder, run } = await environment("openai", ["openai@7.57.0"]);
  const { folder: minilm } = await preparedModel();
  await using store = await storeWith("texts", minilm);
  await using embeddings = await store.serve("minilm");
  await using rerank = await store.serve("texts");
  const url = embeddings.url.origin;
  process.stdout.write(
    await run(["python", join(sources, "openai_client.py"), url, "minilm", rerank.url.origin, "texts"]),
  );
  const npm = join(folder, "node_modules", "openai", "index.mjs");
  await run([process.execPath, join(sources, "openai-client.ts"), npm, url, "minilm"]);
  console.log("✓ openai of npm: equal to POST /predictions");
}
