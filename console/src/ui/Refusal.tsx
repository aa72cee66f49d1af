// A refusal of the server in words: sentence, numbers, next step, code.
import { IconBan } from '@tabler/icons-react'
import { useTranslation } from 'react-i18next'
import { Problem } from '../api/problem'

/** The sentence of an error in the viewer's language; the server's own words stand below it. */
export function useRefusalWords(): (error: unknown) => {
  sentence: string
  detail: string
  hint: string
  code: string
} {
  const { t } = useTranslation('problems')
  return (error) => {
    if (!(error instanceof Problem)) {
      return { sentence: t('unreachable'), detail: '', hint: '', code: '' }
    }
    const sentence = t(error.code, { ...error.numbers, defaultValue: error.message })
    const detail = sentence === error.message ? '' : error.message
    return { sentence, detail, hint: error.hint, code: error.code }
  }
}

export function Refusal(props: { error: unknown }) {
  const words = useRefusalWords()(props.error)
  return (
    <div className="verdict refused" role="alert">
      <IconBan size={20} color="var(--fault)" aria-hidden />
      <div>
        <b>{words.sentence}</b>
        {words.detail && <p lang="en">{words.detail}</p>}
        {words.hint && (
          <p lang="en" className="sub">
            {words.hint}
          </p>
        )}
        {words.code && <p className="dim mono">{words.code}</p>}
      </div>
    </div>
  )
}
