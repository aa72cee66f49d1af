import { useTranslation } from 'react-i18next'
import { translateReason } from '../app/i18n'

/** What the server says of a job, in the language of the page where the catalogue has it, else in English. */
export function ServerText({ text }: { text: string }) {
  const { i18n } = useTranslation()
  const shown = translateReason(text, i18n.language)
  return <span lang={shown === text && i18n.language !== 'en' ? 'en' : undefined}>{shown}</span>
}
