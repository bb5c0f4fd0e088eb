/**
 * Pushes a model over TLS and pulls it into another store: `bun transfer-child.ts FROM TO HOST/repo:tag`. A child process, because trusted authorities are read at the start of a process.
 */
import { ModelStore } from "../../src/package/store/store.ts";
import { pullFrom, pushTo } from "./transfer.ts";

const [from = "", to = "", remote = ""] = process.argv.slice(2);
await pushTo(new ModelStore(from), "digits:v1", remote, { isPlain: false });
const { digest } = await pullFrom(new ModelStore(to), remote, { isPlain: false });
console.log(digest);
