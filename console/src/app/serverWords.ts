// What the server says in English, in the language of the page: by the catalogues that the command line has too.
//
// Why a job waits comes with the Chinese texts. All else is a file of 100 kB that is got with the first text of it; a
// refusal waits for the file, other texts are drawn again once it is here.
import i18next from 'i18next'
import { useSyncExternalStore } from 'react'
import { useTranslation } from 'react-i18next'
import { isProse, type Translator } from '../locales/translator'

/** Milliseconds that a refusal waits for its Chinese; a server in trouble may never send the file. */
const LONGEST_WAIT = 2000

let reasons: Translator | null = null
let everything: Translator | null = null
let titles: Record<string, string> = {}
let loading: Promise<void> | null = null
/** A refusal was read: a page that becomes Chinese may show it. */
let hasRefusal = false
const listeners = new Set<() => void>()

/** Use the texts that come with the language. */
export function setReasons(translator: Translator): void {
  reasons = translator
}

async function load(): Promise<void> {
  if (reasons === null) return
  try {
    const texts = await import('../locales/serverTexts')
    everything = reasons.extend(texts.default)
    titles = texts.titles
  } catch {
    // The page stays in English where the file does not come, and asks again with the next text.
    loading = null
    return
  }
  for (const listener of listeners) listener()
}

function loadOnce(): Promise<void> {
  if (everything === null) loading ??= load()
  return loading ?? Promise.resolve()
}

/** Get the texts of refusals before the first one is shown. Blocks for at most LONGEST_WAIT. */
export async function prepareRefusal(language: string = i18next.language): Promise<void> {
  hasRefusal = true
  if (language !== 'zh' || everything !== null) return
  let timer: ReturnType<typeof setTimeout> | undefined
  const wait = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, LONGEST_WAIT)
  })
  await Promise.race([loadOnce(), wait])
  clearTimeout(timer)
}

/** Get what a page in this language shows of earlier refusals. */
export async function prepareLanguage(language: string): Promise<void> {
  if (hasRefusal) await prepareRefusal(language)
}

/** A text of the server in the language of the page, line by line; without Chinese it is as the server wrote it. */
export function translateText(text: string): string {
  if (i18next.language !== 'zh' || reasons === null) return text
  return text
    .split('\n')
    .map((line) => translateLine(line, reasons as Translator))
    .join('\n')
}

function translateLine(line: string, known: Translator): string {
  const found = (everything ?? known).translate(line)
  if (found === line && everything === null && isProse(line)) void loadOnce()
  return found
}

/** The title of a code in Chinese; empty in English, and before a refusal was read. */
export function findTitle(code: string): string {
  return i18next.language === 'zh' && Object.hasOwn(titles, code) ? (titles[code] ?? '') : ''
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

const readEverything = () => everything

/** `translateText` for a component, which is drawn again when the texts come or the language changes. */
export function useServerWords(): (text: string) => string {
  useTranslation()
  useSyncExternalStore(subscribe, readEverything, readEverything)
  return translateText
}
