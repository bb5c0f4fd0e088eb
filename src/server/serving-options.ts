/** Options of `serve` about the port, the clients and the models. */
import { z } from "zod";
import {
  count,
  duration,
  filePath,
  flagOff,
  hosts,
  type ListenAddress,
  listenAddress,
  listOption,
  openOption,
  option,
  origins,
} from "../base/option.ts";
import { type ApiName, apiNames } from "../http/options.ts";

/** The options in the order in which `--help` lists them. */
export const servingOptions = {
  port: option({
    description: "Port to listen on; 0 picks a free port",
    alias: "p",
    default: 3000,
    // Hosting platforms set this variable.
    otherVariable: "PORT",
    ...count(0, 65535),
  }),
  host: option({
    description: "Address to listen on",
    valueHint: "address",
    default: "0.0.0.0",
    parse: z.string().min(1, "must be an address"),
  }),
  corsOrigin: openOption<readonly string[]>({
    description: "Origins of web pages that may read answers, separated by commas; * allows all",
    described: "none",
    ...origins,
  }),
  allowedHosts: openOption<readonly string[]>({
    description:
      "Host names that requests may use, separated by commas; *.example allows all names below example. IP addresses and localhost are always allowed",
    described:
      "only localhost if --host is a loopback address; else all, but without API keys a browser over plain HTTP may use only private names, such as box or box.local",
    ...hosts,
  }),
  apiKeys: openOption<string>({
    description:
      "File of API keys: the server refuses requests without one of these keys. `sconce key new` makes a key",
    described: "no keys, all requests are answered",
    isPath: true,
    ...filePath,
  }),
  tlsCert: openOption<string>({
    description:
      "File of the TLS certificate and its chain (PEM): the server then speaks HTTPS only. A changed file is read again",
    described: "no TLS",
    isAdvanced: true,
    isPath: true,
    ...filePath,
  }),
  tlsKey: openOption<string>({
    description: "File of the certificate's private key (PEM)",
    described: "none",
    isAdvanced: true,
    isPath: true,
    ...filePath,
  }),
  tlsClientCa: openOption<string>({
    description:
      "File of certificate authorities (PEM): the server answers only clients with a certificate of one of these authorities",
    described: "clients need no certificate",
    isAdvanced: true,
    isPath: true,
    ...filePath,
  }),
  api: option<readonly ApiName[]>({
    description:
      "What the server offers beside /predictions: v2 (API of KServe and Triton), openai, mcp, page (GET /demo), docs (/docs and /openapi.json); separated by commas, or none",
    default: apiNames,
    described: "all",
    isAdvanced: true,
    valueHint: "name,…",
    fileForm: "words",
    parse: z
      .string()
      .transform((given) => (given === "none" ? [] : given.split(",")))
      .pipe(z.array(z.enum(apiNames, `must be none, or some of ${apiNames.join(", ")} with commas between them`))),
  }),
  adminPort: openOption<ListenAddress>({
    description:
      "Port for /metrics, /reload and changes of the model repository, on 127.0.0.1 or on ADDRESS:PORT. --port then has none of these paths. Both ports have /health",
    described: "none: --port has /metrics, and there is no /reload",
    isAdvanced: true,
    ...listenAddress,
  }),
  takeOver: option({
    description:
      "Start beside the sconce server that has the port. When this server is ready, it ends the other one, which finishes its predictions",
    isAdvanced: true,
    ...flagOff,
  }),
  models: openOption<string>({
    description:
      "More models to serve: a TOML file with a table [[model]] for each model, which may set options of the model",
    described: "none",
    isPath: true,
    isAdvanced: true,
    ...filePath,
  }),
  keepAlive: openOption<number>({
    description:
      "Seconds from the last prediction of a model until the server unloads the model. The next prediction loads it again",
    described: "models stay loaded",
    isAdvanced: true,
    ...duration("seconds", 0.01),
  }),
  maxLoaded: openOption<number>({
    description: "Maximum loaded models. Another model replaces the least recently used idle model",
    described: "no limit but memory",
    isAdvanced: true,
    ...count(1),
  }),
  basePath: option({
    description: "Path that a proxy puts before all paths of this server, e.g. /models/digits",
    default: "",
    described: "none",
    isAdvanced: true,
    valueHint: "/path",
    parse: z.string().regex(/^(\/[\w.~-]+)*$/, "must begin with / and must not end with it, e.g. /models/digits"),
  }),
  param: listOption<string>({
    description:
      "Value of a parameter of the model. The command inspect lists the parameters. A value that is no text is JSON",
    valueHint: "name=value",
    described: "the model's",
    parse: z.string().regex(/^\w+=/, "must be name=value"),
  }),
} as const;
