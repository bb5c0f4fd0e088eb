/** Loads libopus, compiled to WebAssembly. */
// The import names the whole package: with an import of one name, Bun 1.4.5 drops modules that its index.js uses.
import * as libopus from "opus-decoder";

export { libopus };
