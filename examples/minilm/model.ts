/** Converts a text to a vector of numbers. Texts with similar meanings have similar vectors. */
import { defineModel, float32, int64, pad, tensor, z } from "sconce";
import { WordPieces } from "./word-pieces.ts";

export default defineModel({
  name: "minilm",
  description: "Embeds a sentence or short paragraph as 384 numbers; of a longer text its first 256 word pieces.",
  input: z.object({ text: z.string() }),
  output: z.object({ embedding: z.array(z.number()).length(384) }),
  tensors: {
    inputs: { input_ids: int64(pad("tokens", 0)), attention_mask: int64(pad("tokens", 0)) },
    outputs: { embedding: float32(384) },
  },
  weights: "minilm.pt",
  assets: ["tokenizer.json"],
  batchSize: 16,
  example: { text: "A sconce is a bracket that holds a torch or a candle." },
  setup: async ({ asset }) => new WordPieces(await asset("tokenizer.json").json()),
  openai: { embeddings: { input: "text", output: "embedding", tokens: (text, { state }) => state.of(text).length } },
  preprocess({ text }, { state: wordPieces }) {
    const ids = wordPieces.of(text);
    return { input_ids: tensor.int64(ids), attention_mask: tensor.int64(ids.map(() => 1)) };
  },
  postprocess({ embedding }) {
    return { embedding: Array.from(embedding.data) };
  },
});
