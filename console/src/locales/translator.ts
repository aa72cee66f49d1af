// The Chinese of a finished English text of the server, by the catalogue that the command line has too. The rules are
// those of `gpupool.terminal.chinese.translator`; tests/golden/chinese_*.json hold both to the same answers.

// `{0}` is carried over and `{0!}` translated; `{0#}` is a number, `{0=}` a term and `{0?}` a text of a
// catalogue, or the text is another one.
const HOLE = /\{(\d+)([!#=?]?)\}/
const NUMBER = /^-?[\d.,]+$/
// Two English words in a row are a sentence: without Chinese the text around it stays English.
const PROSE_PAIR = /(?<![\p{L}\p{N}_/.=-])[a-z']{2,} [a-z']{2,}(?![\p{L}\p{N}_/=-])/u
const JOINT = /; | {2}/
// Between sentences of one text, and what stands for it in Chinese.
const JOINTS = [
  ['; ', '；'],
  ['.  ', '。'],
  ['  ', '  '],
] as const
// Between the parts of a list: all of them have Chinese, or none is translated.
const LISTS = [
  ['; ', '；'],
  [', ', '，'],
] as const
const PREFIX = /^\s*(?:gpupool: |- )?/
const DEPTH = 4
// Texts whose Chinese is kept: more than a page shows.
const KEPT = 2000

/** A text with holes. */
class Template {
  readonly probe: string
  readonly weight: number
  private readonly parts: string[]
  private matcher: RegExp | undefined

  constructor(
    readonly english: string,
    readonly chinese: string,
  ) {
    this.parts = english.split(HOLE).filter((_, number) => number % 3 === 0)
    this.probe = this.parts.reduce((longest, part) => (part.length > longest.length ? part : longest))
    this.weight = this.parts.join('').length
  }

  /** What fills the holes; null where the text is another one. */
  match(text: string): string[] | null {
    if (!text.includes(this.probe)) return null
    if (this.matcher === undefined) {
      const literal = this.parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
      this.matcher = new RegExp(`^${literal.join('(.+?)')}$`, 's')
    }
    return this.matcher.exec(text)?.slice(1) ?? null
  }
}

/** Whether a text has two English words in a row: without Chinese it is an English sentence. */
export function isProse(text: string): boolean {
  return PROSE_PAIR.test(text)
}

export class Translator {
  private readonly exact: Map<string, string>
  private readonly templates: Template[]
  private readonly joined: Map<string, Template[]>
  private readonly kept = new Map<string, string>()

  constructor(
    private readonly texts: Record<string, string>,
    private readonly words: Record<string, string>,
  ) {
    const entries = Object.entries(texts)
    this.exact = new Map(entries.filter(([english]) => !english.includes('{0}')))
    this.templates = entries
      .filter(([english]) => english.includes('{0}'))
      .map(([english, chinese]) => new Template(english, chinese))
      .sort((one, other) => other.weight - one.weight)
    this.joined = new Map(LISTS.map(([joint]) => [joint, this.templates.filter((one) => one.english.includes(joint))]))
  }

  /** One that knows these texts too, before its own. */
  extend(texts: Record<string, string>): Translator {
    return new Translator({ ...texts, ...this.texts }, this.words)
  }

  /** The Chinese of a text; of one without Chinese the English. */
  translate(text: string): string {
    let found = this.kept.get(text)
    if (found === undefined) {
      const before = PREFIX.exec(text)?.[0] ?? ''
      const chinese = this.find(text.slice(before.length), 0)
      found = chinese === null ? text : before + chinese
      if (this.kept.size >= KEPT) this.kept.clear()
      this.kept.set(text, found)
    }
    return found
  }

  private find(text: string, depth: number): string | null {
    const exact = this.exact.get(text)
    if (exact !== undefined) return exact
    if (depth > DEPTH) return null
    // A hole of a shorter template would hold the end of one part and the next one.
    for (const [joint, chinese] of LISTS) {
      if (!text.includes(joint)) continue
      const found =
        this.findFilled(text, this.joined.get(joint) ?? [], depth) ?? this.findList(text, joint, chinese, depth)
      if (found !== null) return found
    }
    return this.findFilled(text, this.templates, depth) ?? this.findParts(text, depth)
  }

  private findFilled(text: string, templates: Template[], depth: number): string | null {
    for (const template of templates) {
      const holes = template.match(text)
      const filled = holes && this.fill(template.chinese, holes, depth)
      if (filled) return filled
    }
    return null
  }

  private findList(text: string, joint: string, chinese: string, depth: number): string | null {
    const found: string[] = []
    for (const part of text.split(joint)) {
      const one = this.find(part, depth + 1)
      if (one === null) return null
      found.push(one)
    }
    return found.join(chinese)
  }

  private fill(chinese: string, holes: string[], depth: number): string | null {
    const parts = chinese.split(HOLE)
    let filled = parts[0] ?? ''
    for (let at = 1; at < parts.length; at += 3) {
      const hole = holes[Number(parts[at])] ?? ''
      const kind = parts[at + 1] ?? ''
      if (kind === '#' && !NUMBER.test(hole)) return null
      if (kind === '=' && !Object.hasOwn(this.words, hole)) return null
      // A name stays as it is, also one that is a word; a sentence is translated or refused.
      const isSentence = ['!', '=', '?'].includes(kind) || this.isSentence(hole)
      const value = isSentence ? this.findPart(hole, depth) : hole
      if (value === null || (['', '#'].includes(kind) && JOINT.test(hole))) return null
      if (kind === '?' && value === hole) return null
      filled += value + (parts[at + 2] ?? '')
    }
    return filled
  }

  private isSentence(text: string): boolean {
    return isProse(text) || (text.includes(' ') && Object.hasOwn(this.words, text))
  }

  /** The Chinese of a part; names, numbers and command lines are their own. */
  private findPart(text: string, depth: number): string | null {
    const word = Object.hasOwn(this.words, text) ? this.words[text] : undefined
    const found = word ?? this.find(text, depth + 1)
    return found ?? (isOwn(text) ? text : null)
  }

  private findParts(text: string, depth: number): string | null {
    for (const [joint, chinese] of JOINTS) {
      if (!text.includes(joint)) continue
      const parts = text.split(joint)
      const found = this.findEach(parts, depth)
      if (found?.some((one, number) => one !== parts[number])) return found.join(chinese)
    }
    return null
  }

  /** The Chinese of each part, null where one has none; names and command lines stay. */
  private findEach(parts: string[], depth: number): string[] | null {
    const found: string[] = []
    for (const part of parts) {
      const one = this.find(part, depth + 1) ?? (isOwn(part) ? part : null)
      if (one === null) return null
      found.push(one)
    }
    return found
  }
}

/** Whether a text is no sentence: a name, a number, a command line. */
function isOwn(text: string): boolean {
  return text.startsWith('gpupool ') || !isProse(text)
}
