// mcp-compaction for opencode: the model reads what our view shows, and our tools know their chat.
// Whatever fails, opencode goes on with its own messages. No dependencies.
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"

const TOOLS = /(^|_)(compress_context|context_stats|pin_constraint|unpin_constraint|recall_archived|restore_context|record_messages)$/
const FIRST_MS = 5000 // that the first view may take: the server has just been started
const BESIDE = new Set(["title", "summary", "compaction"]) // agents that have a window of their own

export const Compaction = async () => {
  const folder = mkdtempSync(join(tmpdir(), "mcp-compaction-")) // for this user alone
  const place = join(folder, "views.json")
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
  let isCold = true // until our server has given a view
  const windows = new Map() // tokens of the model's window, by opencode's ids

  const ask = async (path, body) => {
    try {
      const { url, token, limit_ms } = JSON.parse(readFileSync(place, "utf8"))
      const headers = { authorization: "Bearer " + token, "content-type": "application/json" }
      const signal = AbortSignal.timeout((isCold ? Math.max(limit_ms, FIRST_MS) : limit_ms) + 50)
      const answer = await fetch(url + path, { method: "POST", headers, signal, body: JSON.stringify(body) })
      return answer.ok ? await answer.json() : null
    } catch {
      return null
    }
  }

  const make = (model, entry, number) => {
    const id = `${model.info.id}-${number}`
    const part = { id, messageID: id, sessionID: model.info.sessionID, type: "text", text: entry.text }
    return { info: { ...model.info, id, role: entry.role }, parts: [part] }
  }

  const apply = (messages, view) => {
    const own = new Map(messages.map((message) => [message.info.id, message]))
    const shown = view.show.map((entry, number) => {
      if (!entry.id) return make(messages.find((m) => m.info.role === entry.role), entry, number)
      const message = own.get(entry.id)
      const parts = message.parts.filter((p) => !entry.only || p.type !== "text" || Boolean(p.synthetic) === (entry.only === "written"))
      const said = view.quiet.includes(entry.id) ? parts.filter((p) => p.type !== "reasoning") : parts
      return { ...message, parts: said.map((part) => cut(part, view)) }
    })
    messages.splice(0, messages.length, ...shown)
  }

  const cut = (part, view) => {
    if (part.type !== "tool") return part
    const state = { ...part.state }
    if (part.callID in view.inputs) state.input = view.inputs[part.callID]
    if (part.callID in view.outputs && state.status === "completed") state.output = view.outputs[part.callID]
    if (part.callID in view.outputs && state.status === "error") state.error = view.outputs[part.callID]
    return { ...part, state }
  }

  return {
    config: async (config) => { // our server, which opencode starts, writes its address there
      for (const server of Object.values(config.mcp ?? {}))
        if (server.command?.some((word) => word.includes("mcp-compaction")))
          server.environment = { ...server.environment, MCP_COMPACTION_VIEWS: place }
    },
    "experimental.chat.messages.transform": async (_, output) => {
      const session = output.messages[0]?.info.sessionID
      if (!session) return
      const body = { session, window_tokens: windows.get(session), messages: output.messages }
      const view = await ask("/opencode/view", body)
      if (!view) return
      isCold = false
      try {
        apply(output.messages, view)
      } catch {} // nothing is changed before all of it is made
    },
    "tool.execute.before": async (input, output) => {
      if (TOOLS.test(input.tool) && !output.args.session) output.args.session = "opencode:" + input.sessionID
    },
    "chat.params": async (input) => {
      const size = input.model?.limit?.context
      if (size && !BESIDE.has(input.agent?.name ?? input.agent)) windows.set(input.sessionID, size)
    },
    event: async ({ event }) => {
      if (event.type === "session.idle") await ask("/opencode/record", { session: event.properties.sessionID })
    },
  }
}
