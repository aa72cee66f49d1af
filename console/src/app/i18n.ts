// Languages: one catalogue per page and language in src/locales, a namespace each. A page's texts
// have keys `page:key`; both languages have the same keys (src/locales/catalogues.test.ts).
import i18next from 'i18next'
import { initReactI18next } from 'react-i18next'
import type { Translator } from '../locales/translator'
import { prepareLanguage, setReasons } from './serverWords'

export type Language = 'en' | 'zh'
const STORAGE_KEY = 'gpupool.language'

type Catalogues = Record<string, Record<string, string>>

// A language is a file of its own: the first page loads one of them.
const LOADERS: Record<Language, () => Promise<{ default: Catalogues; reasons?: Translator }>> = {
  en: () => import('../locales/en'),
  zh: () => import('../locales/zh'),
}

/** Get the texts of a language; those that are here are not got again. */
async function loadTexts(language: Language): Promise<void> {
  if (i18next.hasResourceBundle(language, 'shell')) return
  const found = await LOADERS[language]()
  if (found.reasons) setReasons(found.reasons)
  for (const [path, texts] of Object.entries(found.default)) {
    const name = path.slice(path.lastIndexOf('/') + 1, -'.json'.length)
    i18next.addResourceBundle(language, name, texts)
  }
}

/** The language that was chosen here, else the browser's. */
export function findLanguage(): Language {
  const stored = localStorage.getItem(STORAGE_KEY)
  if (stored === 'en' || stored === 'zh') return stored
  return navigator.language.startsWith('zh') ? 'zh' : 'en'
}

/** Whether this browser has a choice of its own; the account's language counts only without one. */
export function hasStoredLanguage(): boolean {
  return localStorage.getItem(STORAGE_KEY) !== null
}

/** Change the language, and remember it in this browser unless `remember` is false. */
export async function changeLanguage(language: Language, remember = true): Promise<void> {
  if (remember) localStorage.setItem(STORAGE_KEY, language)
  await loadTexts(language)
  await prepareLanguage(language)
  await i18next.changeLanguage(language)
}

function markDocument(language: string): void {
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en'
}

void i18next.use(initReactI18next).init({
  lng: findLanguage(),
  // Both languages have the same keys, so that one of them is enough.
  fallbackLng: false,
  ns: ['shell'],
  defaultNS: 'shell',
  keySeparator: false,
  // React escapes every text by itself.
  interpolation: { escapeValue: false },
  resources: {},
})
markDocument(i18next.language)
i18next.on('languageChanged', markDocument)

/** The texts of the first language, before which nothing is drawn. */
export const firstTexts = loadTexts(findLanguage())

export default i18next
