// The words of a command line, split as a shell does it without expanding anything.

/** Split a command into its words; throws where a quote has no end. */
export function splitWords(line: string): string[] {
  const words: string[] = []
  let word: string | null = null
  let quote: '"' | "'" | null = null
  for (let place = 0; place < line.length; place += 1) {
    const character = line[place] ?? ''
    if (quote !== null) {
      if (character === quote) quote = null
      else if (character === '\\' && quote === '"' && '"\\$`'.includes(line[place + 1] ?? ' ')) {
        place += 1
        word += line[place] ?? ''
      } else word += character
    } else if (character === '"' || character === "'") {
      quote = character
      word ??= ''
    } else if (character === '\\' && place + 1 < line.length) {
      place += 1
      word = (word ?? '') + line[place]
    } else if (/\s/.test(character)) {
      if (word !== null) words.push(word)
      word = null
    } else word = (word ?? '') + character
  }
  if (quote !== null) throw new SyntaxError(`unclosed ${quote}`)
  if (word !== null) words.push(word)
  return words
}

/** Join words so that `splitWords` returns them. */
export function joinWords(words: readonly string[]): string {
  return words.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ')
}
