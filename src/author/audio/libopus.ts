/** Loads libopus, compiled to WebAssembly. */
// A namespace import: with a named import, Bun 1.4.5 drops modules that the package's index.js uses.
import * as libopus from "opus-decoder";

export { libopus };
