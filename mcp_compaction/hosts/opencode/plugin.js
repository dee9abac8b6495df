// mcp-compaction for opencode: the model reads what our view shows, and our tools know their chat.
// Whatever fails, opencode goes on with its own messages. No dependencies.
import { spawn } from "node:child_process"
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs"
import { homedir, tmpdir } from "node:os"
import { join } from "node:path"

const TOOLS = /(^|_)(compress_context|context_stats|pin_constraint|unpin_constraint|recall_archived|restore_context|record_messages)$/
const FIRST_MS = 5000 // that the first view may take: the server has just been started
const START_MS = 10000 // that it may take to tell where it is: opencode asks its model as soon as tools are listed
const LOOK_MS = 20
const CHECK_MS = 3000
const HANDOVER_MS = 5000 // that our prompt for a summary may take, which itself takes longer
const MOST_DEEDS = 200 // calls that are remembered of a chat, for what must run before
const BESIDE = new Set(["title", "summary", "compaction"]) // agents that have a window of their own

export const Compaction = async ({ directory } = {}) => {
  const folder = mkdtempSync(join(tmpdir(), "mcp-compaction-")) // for this user alone
  const place = join(folder, "views.json")
  process.on("exit", () => rmSync(folder, { recursive: true, force: true }))
  let isCold = true // until our server has given a view
  let isStarting = false // our server, which opencode starts with this process
  const windows = new Map() // tokens of the model's window, by opencode's ids

  const address = async () => {
    const allowed = 1000 * (process.env.MCP_COMPACTION_VIEW_TIMEOUT_SECONDS || 0)
    const end = Date.now() + Math.max(START_MS, allowed)
    for (;;) {
      try {
        const found = JSON.parse(readFileSync(place, "utf8"))
        isStarting = false
        return found
      } catch (error) {
        isStarting &&= Date.now() < end
        if (!isStarting) throw error
      }
      await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
    }
  }

  const ask = async (path, body, least = 0) => {
    try {
      const { url, token, limit_ms } = await address()
      const headers = { authorization: "Bearer " + token, "content-type": "application/json" }
      const signal = AbortSignal.timeout(Math.max(limit_ms, least, isCold ? FIRST_MS : 0) + 50)
      const answer = await fetch(url + path, { method: "POST", headers, signal, body: JSON.stringify(body) })
      return answer.ok ? await answer.json() : null
    } catch {
      return null
    }
  }

  let program = null // the words that start ours, and the file with the checks of pins
  const deeds = new Map() // what was called, by chats
  const reminders = new Map() // by calls

  const verdictOn = (told) => new Promise((resolve) => { // whatever fails, the call goes on
    const [first, ...rest] = [...program.words, "hook", "opencode", "PreToolUse", "--home", program.home]
    const process = spawn(first, rest, { stdio: ["pipe", "pipe", "ignore"], timeout: CHECK_MS })
    let said = ""
    process.stdout.on("data", (data) => (said += data))
    process.on("error", () => resolve(null))
    process.on("close", () => {
      try { resolve(JSON.parse(said)) } catch { resolve(null) }
    })
    process.stdin.on("error", () => {})
    process.stdin.end(JSON.stringify(told))
  })

  const check = async (input, args) => {
    if (!program || !existsSync(join(program.home, "checks", "rules.json"))) return
    const told = { session_id: input.sessionID, cwd: directory, tool_name: input.tool, tool_input: args }
    const held = await verdictOn({ ...told, tool_use_id: input.callID, deeds: deeds.get(input.sessionID) ?? [] })
    if (held?.verdict === "remind") reminders.set(input.callID, held.text)
    else if (held) throw new Error(held.text)
  }

  const summaries = new Set() // ids of the messages that opencode's model writes its summaries in
  const handovers = new Map() // what is put behind the next summary, by chats

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
        if (server.command?.some((word) => word.includes("mcp-compaction"))) {
          const data = process.env.XDG_DATA_HOME || join(homedir(), ".local", "share")
          const named = server.environment?.MCP_COMPACTION_HOME || process.env.MCP_COMPACTION_HOME
          program = { words: server.command, home: named || join(data, "mcp-compaction") }
          isStarting = server.enabled !== false
          server.environment = { ...server.environment, MCP_COMPACTION_VIEWS: place }
        }
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
      await check(input, output.args)
    },
    "tool.execute.after": async (input, output) => {
      const { exit } = output.metadata ?? {}
      const deed = { tool: input.tool, given: input.args ?? {}, failed: exit !== undefined && exit !== 0 }
      const known = deeds.get(input.sessionID) ?? []
      deeds.set(input.sessionID, [...known, { ...deed, output: String(output.output ?? "").slice(-2000) }].slice(-MOST_DEEDS))
      if (reminders.has(input.callID)) output.output = `${output.output}\n${reminders.get(input.callID)}`
      reminders.delete(input.callID)
    },
    "chat.params": async (input) => {
      const size = input.model?.limit?.context
      if (size && !BESIDE.has(input.agent?.name ?? input.agent)) windows.set(input.sessionID, size)
    },
    "experimental.session.compacting": async (input, output) => {
      handovers.delete(input.sessionID)
      const given = output.prompt ? null : await ask("/opencode/handover", { session: input.sessionID }, HANDOVER_MS)
      if (!given) return // opencode asks by its own prompt, or another plugin's
      output.prompt = given.prompt
      handovers.set(input.sessionID, given.behind)
    },
    "experimental.text.complete": async (input, output) => {
      if (!summaries.delete(input.messageID)) return
      output.text += handovers.get(input.sessionID) ?? ""
      handovers.delete(input.sessionID)
    },
    event: async ({ event }) => {
      const told = event.properties?.info
      if (event.type === "message.updated" && told?.summary === true && !told.time?.completed) summaries.add(told.id)
      if (event.type === "session.idle") await ask("/opencode/record", { session: event.properties.sessionID })
    },
  }
}
