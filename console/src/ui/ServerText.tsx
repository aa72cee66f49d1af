import { useTranslation } from 'react-i18next'
import { useServerWords } from '../app/serverWords'

/** What the server says, in the language of the page where the catalogue has it, else in English. */
export function ServerText({ text }: { text: string }) {
  const { i18n } = useTranslation()
  const shown = useServerWords()(text)
  return <span lang={shown === text && i18n.language !== 'en' ? 'en' : undefined}>{shown}</span>
}
