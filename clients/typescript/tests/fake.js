// A server that answers what a test tells it to.

import { createServer } from "node:http";

export const OPERATION = {
  op_id: "01a1dfbe-3f78-7059-9a95-761888da438a",
  domain: "payments",
  event_type: "charge",
  biz_key: "order-123",
  idem_key: "k",
  state: "COMPLETED",
  effect: "none",
  attempts: 1,
  result: { provider_txn_id: "tx_9", payload: { rows: 3 } },
  failure: null,
};

export const problem = (status, code, headers = {}) => ({
  status,
  headers,
  body: { type: "about:blank", title: "x", status, code, detail: "why" },
});

export const operation = (changes = {}) => ({
  status: 200,
  headers: {},
  body: { ...OPERATION, ...changes },
});

/** The connection is closed without an answer. */
export const DROP = "drop";
/** The answer ends in its middle. */
export const CUT = "cut";

/** Answers requests in order; the last answer is repeated. An answer may depend on the path. */
export async function fake(test, ...answers) {
  const requests = [];
  const server = createServer((request, response) => {
    let text = "";
    request.on("data", (part) => (text += part));
    request.on("end", async () => {
      const body = text ? JSON.parse(text) : undefined;
      requests.push({ method: request.method, url: request.url, headers: request.headers, body });
      let answer = answers.length > 1 ? answers.shift() : answers[0];
      if (typeof answer === "function") answer = await answer(request.url);
      if (answer === DROP) return request.socket.destroy();
      if (answer === CUT) {
        response.writeHead(200, { "content-length": 900 });
        response.write("{", () => request.socket.destroy());
        return;
      }
      const { status, headers } = answer;
      response.writeHead(status, headers);
      response.end(typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body));
    });
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests };
}
