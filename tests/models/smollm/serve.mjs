// One small real model behind the Messages API and chat completions, on 127.0.0.1.
//
//   node serve.mjs --modules NODE_MODULES [--context 2048] [--threads 1] [--cut-silently]
//                  [--keep-prefix] [--grammar GBNF] WEIGHTS
//
// Prints {"port": N, "context": N} as one line and ends when its stdin closes.

import {readFileSync} from "node:fs";
import http from "node:http";
import path from "node:path";
import {pathToFileURL} from "node:url";
import {parseArgs} from "node:util";

const {values: flags, positionals: [weights]} = parseArgs({
    allowPositionals: true,
    options: {
        modules: {type: "string"},
        context: {type: "string", default: "2048"},
        // One thread: two that wait for each other crawl when something else wants the second core.
        threads: {type: "string", default: "1"},
        grammar: {type: "string"},
        "keep-prefix": {type: "boolean", default: false},
        "cut-silently": {type: "boolean", default: false}
    }
});
// An import by name would look beside this file only, and nothing is installed there.
const entry = path.join(flags.modules, "node-llama-cpp", "dist", "index.js");
const {getLlama, LlamaGrammar, LlamaGrammarEvaluationState} = await import(pathToFileURL(entry));

const threads = Number(flags.threads);
const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: "error"});
const model = await llama.loadModel({modelPath: weights});
const batchSize = 64; // tokens between two looks at whether anybody still waits
const context = await model.createContext({
    contextSize: Number(flags.context), batchSize, threads
});
const sequence = context.getSequence();
const grammar = flags.grammar &&
    new LlamaGrammar(llama, {grammar: readFileSync(flags.grammar, "utf8")});

class BadRequest extends Error {}

function plain(content) {
    if (typeof content === "string") return content;
    if (!Array.isArray(content)) throw new BadRequest("content: neither a text nor a list");
    return content.map((block) => block.text ?? "").join("\n");
}

function readTurns(body) {
    if (!Array.isArray(body.messages) || body.messages.length === 0)
        throw new BadRequest("messages: at least one is needed");
    const system = body.system ? [{role: "system", content: body.system}] : [];
    return [...system, ...body.messages].map(({role, content}) => [role, plain(content)]);
}

/** ChatML; only its own marks become special tokens, whatever the texts hold. */
function tokensOf(turns) {
    const open = model.tokenize("<|im_start|>", true);
    const close = model.tokenize("<|im_end|>", true);
    const said = turns.flatMap(([role, text]) =>
        [...open, ...model.tokenize(`${role}\n${text}`), ...close, ...model.tokenize("\n")]
    );
    return [...said, ...open, ...model.tokenize("assistant\n")];
}

function fitted(tokens, most) {
    const room = context.contextSize - Math.min(most, context.contextSize >> 1);
    if (flags["cut-silently"]) return tokens.slice(-room);
    if (tokens.length >= context.contextSize)
        throw new BadRequest(
            `the prompt is ${tokens.length} tokens, the context ${context.contextSize}`
        );
    return tokens;
}

/** Read all, or all but what the request before began with too. */
async function readIn(tokens, isGone) {
    if (flags["keep-prefix"]) await sequence.adaptStateToTokens(tokens, false);
    else await sequence.clearHistory(); // an answer never depends on who asked before
    for (let at = sequence.nextTokenIndex; at < tokens.length && !isGone(); at += batchSize)
        await sequence.evaluateWithoutGeneratingNewTokens(tokens.slice(at, at + batchSize));
}

async function generate(tokens, options, isGone, tell) {
    await readIn(tokens.slice(0, -1), isGone);
    const most = Math.min(options.most, context.contextSize - tokens.length);
    const written = [];
    let text = "";
    for await (const token of sequence.evaluate(tokens.slice(-1), {
        temperature: options.temperature,
        seed: 1,
        repeatPenalty: {punishTokens: () => written.slice(-64), penalty: 1.1},
        grammarEvaluationState: grammar && new LlamaGrammarEvaluationState({model, grammar}),
        yieldEogToken: true
    })) {
        if (model.isEogToken(token)) return {text, written: written.length, ended: true};
        written.push(token);
        const now = model.detokenize(written);
        // A character may be spread over tokens: its first half is told with the second.
        if (!now.endsWith("\ufffd")) {
            tell(now.slice(text.length));
            text = now;
        }
        if (written.length >= most || isGone()) break;
    }
    return {text, written: written.length, ended: false};
}

const usageOf = {
    messages: (read, done) => ({input_tokens: read, output_tokens: done}),
    chat: (read, done) =>
        ({prompt_tokens: read, completion_tokens: done, total_tokens: read + done})
};

const messages = {
    most: (body) => body.max_tokens,
    whole: (name, read, done) => ({
        id: "msg_1", type: "message", role: "assistant", model: name,
        content: [{type: "text", text: done.text}],
        stop_reason: done.ended ? "end_turn" : "max_tokens", stop_sequence: null,
        usage: usageOf.messages(read, done.written)
    }),
    begin: (name, read) => [
        {
            type: "message_start",
            message: {
                id: "msg_1", type: "message", role: "assistant", model: name, content: [],
                stop_reason: null, stop_sequence: null, usage: usageOf.messages(read, 0)
            }
        },
        {type: "content_block_start", index: 0, content_block: {type: "text", text: ""}}
    ],
    piece: (name, text) =>
        ({type: "content_block_delta", index: 0, delta: {type: "text_delta", text}}),
    end: (name, read, done) => [
        {type: "content_block_stop", index: 0},
        {
            type: "message_delta",
            delta: {stop_reason: done.ended ? "end_turn" : "max_tokens", stop_sequence: null},
            usage: usageOf.messages(read, done.written)
        },
        {type: "message_stop"}
    ],
    event: (data) => `event: ${data.type}\ndata: ${JSON.stringify(data)}\n\n`,
    last: "",
    error: (message) => ({type: "error", error: {type: "invalid_request_error", message}})
};

const chunk = (name, choices, rest) =>
    ({id: "chat_1", object: "chat.completion.chunk", created: 0, model: name, choices, ...rest});

const chat = {
    most: (body) => body.max_completion_tokens ?? body.max_tokens ?? 512,
    whole: (name, read, done) => ({
        id: "chat_1", object: "chat.completion", created: 0, model: name,
        choices: [{
            index: 0, message: {role: "assistant", content: done.text},
            finish_reason: done.ended ? "stop" : "length"
        }],
        usage: usageOf.chat(read, done.written)
    }),
    begin: (name) =>
        [chunk(name, [{index: 0, delta: {role: "assistant", content: ""}, finish_reason: null}])],
    piece: (name, text) =>
        chunk(name, [{index: 0, delta: {content: text}, finish_reason: null}]),
    end: (name, read, done) => [
        chunk(name, [{index: 0, delta: {}, finish_reason: done.ended ? "stop" : "length"}]),
        chunk(name, [], {usage: usageOf.chat(read, done.written)})
    ],
    event: (data) => `data: ${JSON.stringify(data)}\n\n`,
    last: "data: [DONE]\n\n",
    error: (message) => ({error: {message, type: "invalid_request_error"}})
};

const dialects = {"/v1/messages": messages, "/v1/chat/completions": chat};

function send(response, status, value) {
    response.writeHead(status, {"content-type": "application/json"});
    response.end(JSON.stringify(value));
}

async function bodyOf(request) {
    const parts = [];
    for await (const part of request) parts.push(part);
    try {
        return JSON.parse(Buffer.concat(parts).toString("utf8"));
    } catch {
        throw new BadRequest("the body is not JSON");
    }
}

async function answer(dialect, body, response) {
    const most = dialect.most(body);
    if (!Number.isInteger(most) || most < 1) throw new BadRequest("max_tokens: a number is needed");
    const name = String(body.model ?? "smollm2");
    const options = {most, temperature: body.temperature ?? 0};
    const tokens = fitted(tokensOf(readTurns(body)), most);
    const isGone = () => response.destroyed;
    const tell = (...events) => {
        if (body.stream) events.forEach((event) => response.write(dialect.event(event)));
    };
    if (body.stream) {
        response.writeHead(200, {"content-type": "text/event-stream"});
        tell(...dialect.begin(name, tokens.length));
    }
    const done = await generate(
        tokens, options, isGone, (text) => tell(dialect.piece(name, text))
    );
    if (!body.stream) return send(response, 200, dialect.whole(name, tokens.length, done));
    tell(...dialect.end(name, tokens.length, done));
    response.end(dialect.last);
}

let turn = Promise.resolve(); // one sequence: who comes second waits

const server = http.createServer(async (request, response) => {
    const dialect = request.method === "POST" ? dialects[request.url] : undefined;
    if (!dialect) return send(response, 404, chat.error(`no ${request.method} ${request.url}`));
    try {
        const body = await bodyOf(request);
        turn = turn.catch(() => {}).then(() => answer(dialect, body, response));
        await turn;
    } catch (error) {
        const status = error instanceof BadRequest ? 400 : 500;
        if (response.headersSent) response.destroy();
        else send(response, status, dialect.error(error.message));
    }
});

server.listen(0, "127.0.0.1", () => {
    const {port} = server.address();
    console.log(JSON.stringify({port, context: context.contextSize}));
});
process.stdin.on("end", () => process.exit(0)).resume();
