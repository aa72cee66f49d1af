// Languages: one catalogue per page and language in src/locales, a namespace each. A page's texts
// have keys `page:key`; both languages have the same keys (src/locales/catalogues.test.ts).
import i18next from 'i18next'
import { initReactI18next } from 'react-i18next'

export type Language = 'en' | 'zh'
const STORAGE_KEY = 'gpupool.language'

const files = import.meta.glob<{ default: Record<string, string> }>('../locales/*/*.json', { eager: true })

type Resources = Record<string, Record<string, Record<string, string>>>

function collectResources(): Resources {
  const resources: Resources = {}
  for (const [path, file] of Object.entries(files)) {
    const [language, name] = path.split('/').slice(-2) as [string, string]
    resources[language] ??= {}
    resources[language][name.replace('.json', '')] = file.default
  }
  return resources
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
export function changeLanguage(language: Language, remember = true): void {
  if (remember) localStorage.setItem(STORAGE_KEY, language)
  void i18next.changeLanguage(language)
}

function markDocument(language: string): void {
  document.documentElement.lang = language === 'zh' ? 'zh-CN' : 'en'
}

void i18next.use(initReactI18next).init({
  lng: findLanguage(),
  fallbackLng: 'en',
  ns: ['shell'],
  defaultNS: 'shell',
  keySeparator: false,
  // React escapes every text by itself.
  interpolation: { escapeValue: false },
  resources: collectResources(),
})
markDocument(i18next.language)
i18next.on('languageChanged', markDocument)

export default i18next
