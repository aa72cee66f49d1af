// The Chinese of a finished English text of the server, by the catalogue that the command line has too. The rules are
// those of `gpupool.terminal.chinese.translator`; tests/golden/chinese_reasons.json holds both to the same answers.

// `{0}` is carried over and `{0!}` translated; `{0#}` is a number and `{0=}` a term, or the text is another one.
const HOLE = /\{(\d+)([!#=]?)\}/
const NUMBER = /^-?[\d.,]+$/
// Two English words in a row are a sentence: without Chinese the text around it stays English.
const PROSE_PAIR = /(?<![\w/.=-])[a-z']{2,} [a-z']{2,}(?![\w/=-])/
const JOINT = /; | {2}/
// Between the parts of a list: all of them have Chinese, or none is translated.
const LISTS = [
  ['; ', '；'],
  [', ', '，'],
] as const
const DEPTH = 4

type Template = { probe: string; weight: number; matcher: RegExp; english: string; chinese: string }

function makeTemplate(english: string, chinese: string): Template {
  const parts = english.split(HOLE).filter((_, number) => number % 3 === 0)
  const literal = parts.map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, '\\$&'))
  return {
    english,
    chinese,
    probe: parts.reduce((longest, part) => (part.length > longest.length ? part : longest)),
    weight: parts.join('').length,
    matcher: new RegExp(`^${literal.join('(.+?)')}$`, 's'),
  }
}

export class Translator {
  private readonly exact: Map<string, string>
  private readonly templates: Template[]

  constructor(
    texts: Record<string, string>,
    private readonly words: Record<string, string>,
  ) {
    const entries = Object.entries(texts)
    this.exact = new Map(entries.filter(([english]) => !english.includes('{0}')))
    this.templates = entries
      .filter(([english]) => english.includes('{0}'))
      .map(([english, chinese]) => makeTemplate(english, chinese))
      .sort((one, other) => other.weight - one.weight)
  }

  /** The Chinese of a text; of one without Chinese the English. */
  translate(text: string): string {
    return this.find(text, 0) ?? text
  }

  private find(text: string, depth: number): string | null {
    const exact = this.exact.get(text)
    if (exact !== undefined) return exact
    if (depth > DEPTH) return null
    // A hole of a shorter template would hold the end of one part and the next one.
    for (const [joint, chinese] of LISTS) {
      if (!text.includes(joint)) continue
      const templates = this.templates.filter((one) => one.english.includes(joint))
      const found = this.findFilled(text, templates, depth) ?? this.findList(text, joint, chinese, depth)
      if (found !== null) return found
    }
    return this.findFilled(text, this.templates, depth)
  }

  private findFilled(text: string, templates: Template[], depth: number): string | null {
    for (const template of templates) {
      if (!text.includes(template.probe)) continue
      const holes = template.matcher.exec(text)
      const filled = holes && this.fill(template.chinese, holes.slice(1), depth)
      if (filled) return filled
    }
    return null
  }

  private findList(text: string, joint: string, chinese: string, depth: number): string | null {
    const found = text.split(joint).map((part) => this.find(part, depth + 1))
    return found.includes(null) ? null : found.join(chinese)
  }

  private fill(chinese: string, holes: string[], depth: number): string | null {
    const parts = chinese.split(HOLE)
    let filled = parts[0] ?? ''
    for (let at = 1; at < parts.length; at += 3) {
      const hole = holes[Number(parts[at])] ?? ''
      const kind = parts[at + 1] ?? ''
      if (kind === '#' && !NUMBER.test(hole)) return null
      if (kind === '=' && !(hole in this.words)) return null
      // A name stays as it is, also one that is a word; a sentence is translated or refused.
      const isSentence = kind === '!' || kind === '=' || PROSE_PAIR.test(hole)
      const value = isSentence ? this.findPart(hole, depth) : hole
      if (value === null || (['', '#'].includes(kind) && JOINT.test(hole))) return null
      filled += value + (parts[at + 2] ?? '')
    }
    return filled
  }

  /** The Chinese of a part; names, numbers and command lines are their own. */
  private findPart(text: string, depth: number): string | null {
    const found = this.words[text] ?? this.find(text, depth + 1)
    if (found === null && (text.startsWith('gpupool ') || !PROSE_PAIR.test(text))) return text
    return found
  }
}
