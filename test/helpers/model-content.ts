/** A small model for a store: commands can list and resolve it, but not run it. */
import { type ModelConfig, mediaTypes } from "../../src/package/store/manifest.ts";
import type { LayerSource, ModelStore } from "../../src/package/store/store.ts";

export function modelConfig(change: Partial<ModelConfig> = {}): ModelConfig {
  return {
    sconceApi: 1,
    name: "digits",
    inputSchema: { type: "object" },
    outputSchema: { type: "object" },
    inputs: [{ name: "pixels", dtype: "float32", dims: [64] }],
    outputs: [{ name: "scores", dtype: "float32", dims: [10] }],
    batchSize: 64,
    torchVersion: "2.13.0",
    ...change,
  };
}

/** A layer with bundled code and a layer with weights. By default the weights are the bytes of `content`. */
export function modelLayers(content: string, weights: string | Uint8Array = Buffer.from(content)): LayerSource[] {
  return [
    { mediaType: mediaTypes.bundle, title: "model.js", source: Buffer.from(`// ${content}`) },
    { mediaType: mediaTypes.weights, title: "digits.pt", source: weights },
  ];
}

/** A model `digits` of this content, for `ModelStore.put`. */
export function modelOf(
  content: string,
  change: Partial<Parameters<ModelStore["put"]>[0]> = {},
): Parameters<ModelStore["put"]>[0] {
  return { repository: "digits", config: modelConfig(), layers: modelLayers(content), ...change };
}
