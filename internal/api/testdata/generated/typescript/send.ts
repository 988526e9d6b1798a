// What a producer writes against the generated types, and an operator. Arguments: URL, their
// tokens.
import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

declare const process: { argv: string[] };

const [, , baseUrl, token, operator] = process.argv;
const client = createClient<paths>({ baseUrl, headers: { Authorization: `Bearer ${token}` } });

const localised: components["schemas"]["Notification"] = {
  id: "localised",
  app: "demo",
  user: "ada",
  priority: "default",
  targets: [{ platform: "apns", token: "00fc13ad" }, { platform: "fcm", fid: "ada-pixel" }],
  apns: { aps: { alert: { "title-loc-key": "SHIPPED", "loc-key": "ARRIVES", "loc-args": ["4711"] } } },
  fcm: { android: { notification: { title_loc_key: "SHIPPED", body_loc_key: "ARRIVES", body_loc_args: ["4711"] } } },
};
const activity: components["schemas"]["Notification"] = {
  id: "activity",
  app: "demo",
  user: "ben",
  targets: [{ platform: "apns", token: "00fc13ad" }],
  push_type: "liveactivity",
  apns: { aps: { event: "update", timestamp: 1795000000, "content-state": { minutes: 12 } } },
};

const one = await client.POST("/v1/notifications", { body: localised });
if (!one.data || one.data.id !== "localised" || one.response.status !== 202) {
  throw new Error(`the localised one: ${one.response.status} ${JSON.stringify(one.error)}`);
}
const batch = await client.POST("/v1/notifications:batch", { body: [activity, localised] });
const statuses = batch.data?.results.map((result) => result.status).join();
if (statuses !== "202,200") {
  throw new Error(`the batch: ${batch.response.status} ${statuses} ${JSON.stringify(batch.error)}`);
}
const status = await client.GET("/v1/notifications/{id}", { params: { path: { id: "activity" } } });
if (status.data?.state !== "waiting") {
  throw new Error(`the status: ${JSON.stringify(status.data ?? status.error)}`);
}
const refused = await client.POST("/v1/notifications", { body: { ...activity, id: "mistyped", app: "dmeo" } });
if (!refused.error?.errors?.some((fault) => fault.pointer === "/app")) {
  throw new Error(`the mistyped app: ${refused.response.status} ${JSON.stringify(refused.error)}`);
}
const cancelled = await client.POST("/v1/cancellations", {
  body: { ids: ["mistyped", { id: "localised", app: "demo", user: "nobody" }] },
  headers: { Authorization: `Bearer ${operator}` },
});
const outcomes = cancelled.data?.results.map((result) => result.outcome).join();
if (outcomes !== "unknown,unknown") {
  throw new Error(`what is nobody's: ${cancelled.response.status} ${outcomes} ${JSON.stringify(cancelled.error)}`);
}
