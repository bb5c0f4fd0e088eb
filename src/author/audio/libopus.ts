/** libopus in WebAssembly. */
// An import of one name would break in bundles: Bun 1.4.5 drops modules that the package's index.js itself uses.
import * as libopus from "opus-decoder";

export { libopus };
